/* fast_table.c - the table of one instruction set. */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/tile.h"

#define STRING2(name) #name
#define STRING(name)  STRING2(name)

const struct cpu_kernels SIMD_NAME(kernels) = {
    .name = STRING(SIMD_SET),
    .embed = SIMD_NAME(embed),
    .rmsnorm = SIMD_NAME(rmsnorm),
    .linear = SIMD_NAME(linear),
    .rope_kv = SIMD_NAME(rope_kv),
    .attention = SIMD_NAME(attention),
    .silu_mul = SIMD_NAME(silu_mul),
    .moe = SIMD_NAME(moe),
    .sample = SIMD_NAME(sample),
    .pack_panel = SIMD_NAME(tile_pack_panel),
};
