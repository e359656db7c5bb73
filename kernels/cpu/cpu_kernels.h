/*
 * cpu_kernels.h - the operators of the cpu back end by instruction set, and which set is used.
 *
 * plain is the readable definition (plain_*.c). The others come from the same fast_*.c, compiled
 * once for each instruction set: generic (any CPU), avx2, avx512, avx512_bf16.
 */
#ifndef KERNELS_CPU_CPU_KERNELS_H
#define KERNELS_CPU_CPU_KERNELS_H

#include "common/status.h"
#include "kernels/cpu/stream.h"
#include "kernels/ops.h"

/* Each takes the args struct of ops.h of that name; silu_mul, which follows linear in a gate_up,
 * takes gate_up's. */
struct cpu_kernels {
    const char *name;
    cpu_op embed, rmsnorm, linear, rope_kv, attention, silu_mul, moe, sample;
    /* num_rows <= WEIGHT_PANEL rows of k elements as a panel of a weight (weight.h). */
    void (*pack_panel)(const void *const *rows, int32_t num_rows, enum dtype dtype, size_t k,
                       float *panel);
};

/* The best set that this CPU has, or the one that MINISGL_CPU_ISA names. */
MUST_CHECK struct status cpu_kernels_choose(const struct cpu_kernels **out);

void plain_embed(struct stream *stream, const void *args);
void plain_rmsnorm(struct stream *stream, const void *args);
void plain_linear(struct stream *stream, const void *args);
void plain_rope_kv(struct stream *stream, const void *args);
void plain_attention(struct stream *stream, const void *args);
void plain_silu_mul(struct stream *stream, const void *args);
void plain_moe(struct stream *stream, const void *args);
void plain_sample(struct stream *stream, const void *args);

/* step_begin.c: one for all sets, for nothing in it takes time. */
void cpu_step_begin(struct stream *stream, const void *args);

/* device.c */
struct pool *cpu_device_pool(struct device *device);

/* Bytes that operators of any set need. */
size_t cpu_workspace_size(int32_t num_threads, const struct ops_limits *limits);

#endif
