/* cpu_kernels.c - see cpu_kernels.h. */
#include "kernels/cpu/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/fast_attention.h"
#include "kernels/cpu/fast_moe.h"
#include "kernels/cpu/fast_sample.h"
#include "kernels/cpu/weight.h"
#include "kernels/ops.h"

/* fast_tile.c, for any CPU */
void generic_tile_pack_panel(const void *const *rows, int32_t num_rows, enum dtype dtype, size_t k,
                             float *panel);

static const struct cpu_kernels kernels_plain = {
    .name = "plain",
    .embed = plain_embed,
    .rmsnorm = plain_rmsnorm,
    .linear = plain_linear,
    .rope_kv = plain_rope_kv,
    .attention = plain_attention,
    .silu_mul = plain_silu_mul,
    .moe = plain_moe,
    .sample = plain_sample,
    .pack_panel = generic_tile_pack_panel,
};

static bool has_any(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

/* fast_table.c, once for each set. */
extern const struct cpu_kernels generic_kernels, avx2_kernels, avx512_kernels, avx512_bf16_kernels;

/* The better set comes first. */
static const struct {
    const struct cpu_kernels *kernels;
    bool (*is_supported)(void);
} sets[] = {
#if defined(__x86_64__)
    {&avx512_bf16_kernels, has_avx512_bf16},
    {&avx512_kernels, has_avx512},
    {&avx2_kernels, has_avx2},
#endif
    {&generic_kernels, has_any},
    {&kernels_plain, has_any},
};

struct status cpu_kernels_choose(const struct cpu_kernels **out)
{
    const char *wanted = getenv("MINISGL_CPU_ISA");

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        if (wanted && *wanted && strcmp(wanted, sets[i].kernels->name) != 0)
            continue;
        if (sets[i].is_supported()) {
            *out = sets[i].kernels;
            return status_ok();
        }
        if (wanted && *wanted)
            return status_error(STATUS_UNSUPPORTED, "MINISGL_CPU_ISA=%s: this CPU lacks it",
                                wanted);
    }
    return status_error(STATUS_UNSUPPORTED, "MINISGL_CPU_ISA=%s: no such instruction set", wanted);
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t cpu_workspace_size(int32_t num_threads, const struct ops_limits *limits)
{
    size_t blocks = ((size_t)limits->max_kv_len + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    size_t padded_dim = ((size_t)limits->head_dim + WEIGHT_PANEL - 1) / WEIGHT_PANEL * WEIGHT_PANEL;
    size_t units = attention_split_units(num_threads, limits->num_qo_heads, limits->num_kv_heads);
    size_t attention = ((size_t)limits->max_rows + 32 + units * blocks * (padded_dim + 2) +
                        (size_t)limits->max_kv_len) *
                       sizeof(float);
    size_t sample = (size_t)limits->vocab_size * SAMPLE_TOKEN_SIZE * (size_t)num_threads;
    size_t plain_moe_size = ((size_t)limits->num_experts + (size_t)limits->hidden_size +
                             (size_t)limits->moe_inner_size) *
                            sizeof(float);
    struct moe_layout moe = {.size = 0};

    int32_t moe_tokens = limits->max_tokens < MOE_MAX_TOKENS ? limits->max_tokens : MOE_MAX_TOKENS;

    if (limits->num_experts > 0)
        moe_layout_init(&moe, NULL, moe_tokens, limits->num_experts, limits->moe_top_k,
                        limits->hidden_size, limits->moe_inner_size, limits->dtype);
    return max_size(max_size(attention, sample), max_size(moe.size, plain_moe_size));
}
