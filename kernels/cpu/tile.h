/*
 * tile.h - the inner kernel of all products: a few rows times one panel of WEIGHT_PANEL outputs.
 *
 *     c[m, 0 .. 31] (+)= sum over k, in order, of a[m, k] * panel[k, 0 .. 31]
 *
 * Lanes are outputs and k runs in sequence, one accumulator for each output: so an output's sum is
 * the same whatever other rows there are, and may be stopped at any k and taken up again.
 *
 * bfloat16 comes in words of two neighbouring k. With AVX512-BF16 a is such words, and one
 * instruction adds both products; elsewhere a is float32 and the panel's words are widened.
 */
#ifndef KERNELS_CPU_TILE_H
#define KERNELS_CPU_TILE_H

#include "kernels/cpu/fast.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/weight.h"

/* As many rows as keep all accumulators in registers. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 12 };
#elif defined(__AVX2__)
enum { TILE_ROWS = 3 };
#else
enum { TILE_ROWS = 1 };
#endif

/* What a holds for one word of a bfloat16 panel: the word, or two float32. */
#if defined(__AVX512BF16__)
enum { TILE_BF16_FLOATS = 1 };
#else
enum { TILE_BF16_FLOATS = 2 };
#endif

enum {
    TILE_VECTORS = WEIGHT_PANEL / VF_LANES,
    TILE_SLACK = 16, /* floats that packing may write behind the end */
};

struct tile_args {
    const float *a; /* row m of step k at a[k * a_step + m], of words at [.. + i * rows + m] */
    size_t a_step;
    const char *panel;
    size_t num_steps; /* k, or words */
    float *c;
    size_t c_row;
    bool add;                      /* to what c holds */
    int32_t ahead_lines;           /* cache lines to fetch at each step, 0 to 2 */
    const char *ahead;             /* the first of them: what will be read next */
    const char *const *ahead_rows; /* of tile_rows_long: [num_steps], or NULL */
    size_t ahead_offset;
};

/* rows in [1, TILE_ROWS]. a holds rows side by side: a_step is rows, or rows * TILE_BF16_FLOATS. */
void SIMD_NAME(tile_f32)(int32_t rows, const struct tile_args *args);
void SIMD_NAME(tile_bf16)(int32_t rows, const struct tile_args *args);

/* The same in float32 with element (m, k) of a at a[m * TILE_LONG_ROW + k]. */
enum { TILE_LONG_ROW = 128 };
void SIMD_NAME(tile_f32_long)(int32_t rows, const struct tile_args *args);

/* The same with step k of the panel at element first of w_rows[k], of dtype, widened. Fetches two
 * lines at args->ahead_rows[k] + args->ahead_offset unless NULL. */
void SIMD_NAME(tile_rows_long)(int32_t rows, enum dtype dtype, const void *const *w_rows,
                               size_t first, const struct tile_args *args);

/*
 * Turns num_rows <= 16 rows, num_steps 32-bit words of each, so that the rows of a word lie side by
 * side: out[step * out_step + row]. What is in out up to TILE_SLACK floats behind a word's last row
 * is overwritten, so steps are to be packed in order and row groups from left to right.
 */
void SIMD_NAME(tile_pack_words)(const void *const *rows, int32_t num_rows, size_t num_steps,
                                float *out, size_t out_step);

/* Rows of k elements of dtype as tile_f32 and tile_bf16 take them; out_step is their a_step. */
void SIMD_NAME(tile_pack)(const void *const *rows, int32_t num_rows, enum dtype dtype, size_t k,
                          float *out, size_t out_step);

/* num_rows <= WEIGHT_PANEL rows of k elements as a panel. Lanes behind the last repeat it. */
void SIMD_NAME(tile_pack_panel)(const void *const *rows, int32_t num_rows, enum dtype dtype,
                                size_t k, float *panel);

/* A bfloat16 panel as a float32 one: num_words words of two k become twice as many steps. What
 * tile_bf16 takes beside the one, where TILE_BF16_FLOATS is 2, tile_f32 takes beside the other. */
void SIMD_NAME(tile_widen_panel)(const char *panel, size_t num_words, float *out);

/* Steps of k elements. */
static inline size_t tile_steps(enum dtype dtype, size_t k)
{
    return dtype == DTYPE_F32 ? k : (k + 1) / 2;
}

/* Floats that a holds for each row of a step. */
static inline size_t tile_floats(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1 : TILE_BF16_FLOATS;
}

#endif
