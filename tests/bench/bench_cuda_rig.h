/*
 * bench_cuda_rig.h - a card, its buffers, and the time of what is put into a graph there.
 *
 * Each graph holds several launches, RIG_REPEATS as a rule, over buffers that rotate through more
 * than the cache holds, with random contents; the figure is the median of several replays.
 * Ceilings: 4.6 TB/s of memory and 989 TFLOP/s of dense bfloat16, what an H200 reads and what its
 * vendor promises. What fails ends the program.
 */
#ifndef TESTS_BENCH_BENCH_CUDA_RIG_H
#define TESTS_BENCH_BENCH_CUDA_RIG_H

#include "kernels/ops.h"

enum { RIG_REPEATS = 28, RIG_NOISE_SIZE = 64 << 20 };
enum { RIG_VOCAB = 151936, RIG_MAX_ROWS = 256 }; /* of what samples: Qwen3's, and a large step's */

struct rig {
    struct backend backend;
    struct device *device;
    struct stream *stream;
    uint16_t *noise; /* owned: RIG_NOISE_SIZE bytes of bfloat16, normal-like */
};

extern struct rig rig;

/* names: those that are wanted, all where there are none; borrowed. */
void rig_open(char **names, int num_names);
void rig_close(void);
void rig_ok(struct status status);
bool rig_wants(const char *name);

/* Device memory with noise in it, or with what the host has; freed by rig_end_case(). */
void *rig_random(size_t size);
void *rig_copy(const void *host, size_t size);
void rig_end_case(void);

/* What samples rows [RIG_VOCAB] of logits, all of them alike; the last two are on the device. */
struct sample_args rig_sample(int32_t rows, float temperature, float top_p, int32_t top_k,
                              const float *logits, void *workspace);

/* Microseconds of one of the launches that put(state, i) makes, i < repeats. */
double rig_time(void (*put)(void *state, int i), void *state, int repeats);
void rig_report(const char *name, double us, double bytes, double flops);

/* Parts of bench_cuda_ops that have files of their own. */
void bench_moe(void);
void bench_step(int32_t rows, int32_t kv, float temperature);

#endif
