/* fast_tile.c - see tile.h. */
#include "kernels/cpu/tile.h"

/* What a holds at one step. PACKED: rows side by side. LONG: each row in a line of its own. */
enum layout { LAYOUT_PACKED, LAYOUT_LONG };

/* Where a panel's steps are, unless side by side. */
struct scattered {
    const void *const *rows; /* NULL: side by side */
    size_t first;
    enum dtype dtype;
};

/* acc += the products of one step. */
SIMD_INLINE void multiply(const int rows, const enum layout layout, const enum dtype dtype,
                          const float *a, const vf *w, vf (*acc)[TILE_VECTORS])
{
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++) {
        const vf x = vf_set1(a[layout == LAYOUT_LONG ? m * TILE_LONG_ROW : m]);
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++) {
            if (dtype == DTYPE_F32) {
                acc[m][v] = vf_fma(x, w[v], acc[m][v]);
                continue;
            }
#if defined(__AVX512BF16__)
            acc[m][v] = _mm512_dpbf16_ps(acc[m][v], (__m512bh)w[v], (__m512bh)x);
#else
            acc[m][v] = vf_fma(x, vf_lower_half(w[v]), acc[m][v]);
            acc[m][v] = vf_fma(vf_set1(a[rows + m]), vf_upper_half(w[v]), acc[m][v]);
#endif
        }
    }
}

SIMD_INLINE void run(const int rows, const enum layout layout, const enum dtype dtype,
                     const struct scattered from, const struct tile_args *args)
{
    vf acc[TILE_ROWS][TILE_VECTORS];
    const float *a = args->a;
    const char *panel = args->panel, *ahead = args->ahead;
    const int32_t ahead_lines = args->ahead_lines;
    const size_t a_step = layout == LAYOUT_LONG ? 1 : args->a_step;

#pragma GCC unroll 16
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++)
            acc[m][v] =
                args->add ? vf_load(args->c + (size_t)m * args->c_row + v * VF_LANES) : vf_set1(0);
    for (size_t step = 0; step < args->num_steps; step++) {
        vf w[TILE_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++)
            w[v] = from.rows ? vf_load_row(from.rows[step], from.dtype,
                                           from.first + (size_t)v * VF_LANES, VF_LANES)
                             : vf_load(panel + (size_t)v * sizeof(vf));
        multiply(rows, layout, dtype, a, w, acc);
        if (from.rows && args->ahead_rows) {
            const char *line = args->ahead_rows[step] + args->ahead_offset;
            __builtin_prefetch(line, 0, 3);
            __builtin_prefetch(line + 64, 0, 3);
        }
        if (ahead_lines > 0) {
            __builtin_prefetch(ahead, 0, 2);
            if (ahead_lines > 1)
                __builtin_prefetch(ahead + 64, 0, 2);
            ahead += (size_t)ahead_lines * 64;
        }
        a += a_step;
        if (!from.rows)
            panel += sizeof(w);
    }
#pragma GCC unroll 16
    for (int m = 0; m < rows; m++)
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++)
            vf_store(args->c + (size_t)m * args->c_row + v * VF_LANES, acc[m][v]);
}

/* The number of rows must be a constant for the accumulators to be registers. */
SIMD_INLINE void run_rows(int32_t rows, const enum layout layout, const enum dtype dtype,
                          const struct scattered from, const struct tile_args *args)
{
    switch (rows) {
    case 1:
        run(1, layout, dtype, from, args);
        return;
#if defined(__AVX2__)
    case 2:
        run(2, layout, dtype, from, args);
        return;
    case 3:
        run(3, layout, dtype, from, args);
        return;
#endif
#if defined(__AVX512F__)
    case 4:
        run(4, layout, dtype, from, args);
        return;
    case 5:
        run(5, layout, dtype, from, args);
        return;
    case 6:
        run(6, layout, dtype, from, args);
        return;
    case 7:
        run(7, layout, dtype, from, args);
        return;
    case 8:
        run(8, layout, dtype, from, args);
        return;
    case 9:
        run(9, layout, dtype, from, args);
        return;
    case 10:
        run(10, layout, dtype, from, args);
        return;
    case 11:
        run(11, layout, dtype, from, args);
        return;
    case 12:
        run(12, layout, dtype, from, args);
        return;
#endif
    default:
        return;
    }
}

static const struct scattered side_by_side = {.rows = NULL};

void SIMD_NAME(tile_f32)(int32_t rows, const struct tile_args *args)
{
    run_rows(rows, LAYOUT_PACKED, DTYPE_F32, side_by_side, args);
}

void SIMD_NAME(tile_bf16)(int32_t rows, const struct tile_args *args)
{
    run_rows(rows, LAYOUT_PACKED, DTYPE_BF16, side_by_side, args);
}

void SIMD_NAME(tile_f32_long)(int32_t rows, const struct tile_args *args)
{
    run_rows(rows, LAYOUT_LONG, DTYPE_F32, side_by_side, args);
}

void SIMD_NAME(tile_rows_long)(int32_t rows, enum dtype dtype, const void *const *w_rows,
                               size_t first, const struct tile_args *args)
{
    if (dtype == DTYPE_F32)
        run_rows(rows, LAYOUT_LONG, DTYPE_F32, (struct scattered){w_rows, first, DTYPE_F32}, args);
    else
        run_rows(rows, LAYOUT_LONG, DTYPE_F32, (struct scattered){w_rows, first, DTYPE_BF16}, args);
}

#if defined(__AVX512F__)
/* r[i] lane j becomes r[j] lane i. */
SIMD_INLINE void transpose(__m512 *r)
{
    __m512 t[16];
    __m512d u[16];

#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) { /* u[i + j]: columns j, 4 + j, 8 + j, 12 + j of rows i .. */
        u[i] = _mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 1] = _mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 2] = _mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
        u[i + 3] = _mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    }
#pragma GCC unroll 16
    for (int j = 0; j < 4; j++) {
        __m512 even0 = _mm512_shuffle_f32x4((__m512)u[j], (__m512)u[4 + j], 0x88);
        __m512 even1 = _mm512_shuffle_f32x4((__m512)u[8 + j], (__m512)u[12 + j], 0x88);
        __m512 odd0 = _mm512_shuffle_f32x4((__m512)u[j], (__m512)u[4 + j], 0xDD);
        __m512 odd1 = _mm512_shuffle_f32x4((__m512)u[8 + j], (__m512)u[12 + j], 0xDD);
        r[j] = _mm512_shuffle_f32x4(even0, even1, 0x88);
        r[4 + j] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
        r[8 + j] = _mm512_shuffle_f32x4(even0, even1, 0xDD);
        r[12 + j] = _mm512_shuffle_f32x4(odd0, odd1, 0xDD);
    }
}
#elif defined(__AVX2__)
/* r[i] lane j becomes r[j] lane i. */
SIMD_INLINE void transpose(__m256 *r)
{
    __m256 t[8], u[8];

#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) { /* u[i + j]: columns j, 4 + j of rows i .. */
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
#pragma GCC unroll 8
    for (int j = 0; j < 4; j++) {
        r[j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
        r[4 + j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
    }
}

/* Of the first num lanes. */
SIMD_INLINE __m256i lanes_below(size_t num)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)num),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Eight steps of rows first .. first + 7: r[j] is step j. Lanes behind the last row repeat it. */
SIMD_INLINE void load_turned(const void *const *rows, int32_t first, int32_t num_rows, size_t step,
                             __m256i mask, __m256 *r)
{
#pragma GCC unroll 8
    for (int32_t i = 0; i < 8; i++) {
        const float *row = rows[first + i < num_rows ? first + i : num_rows - 1];
        r[i] = _mm256_maskload_ps(row + step, mask);
    }
    transpose(r);
}
#endif

void SIMD_NAME(tile_pack_words)(const void *const *rows, int32_t num_rows, size_t num_steps,
                                float *out, size_t out_step)
{
    size_t step = 0;

#if defined(__AVX512F__)
    for (; step < num_steps; step += 16) {
        size_t rest = num_steps - step < 16 ? num_steps - step : 16;
        __mmask16 mask = (__mmask16)((1u << rest) - 1);
        __m512 r[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const float *row = rows[i < num_rows ? i : num_rows - 1];
            r[i] = _mm512_maskz_loadu_ps(mask, row + step);
        }
        transpose(r);
        for (size_t i = 0; i < rest; i++)
            _mm512_storeu_ps(out + (step + i) * out_step, r[i]);
    }
#elif defined(__AVX2__)
    for (; step < num_steps; step += 8) {
        size_t rest = num_steps - step < 8 ? num_steps - step : 8;
        __m256i mask = lanes_below(rest);
        __m256 r[8], s[8];
        load_turned(rows, 0, num_rows, step, mask, r);
        if (num_rows > 8)
            load_turned(rows, 8, num_rows, step, mask, s);
        for (size_t i = 0; i < rest; i++) {
            _mm256_storeu_ps(out + (step + i) * out_step, r[i]);
            if (num_rows > 8)
                _mm256_storeu_ps(out + (step + i) * out_step + 8, s[i]);
        }
    }
#else
    for (; step < num_steps; step++)
        for (int32_t i = 0; i < num_rows; i++)
            memcpy(out + step * out_step + (size_t)i, (const char *)rows[i] + step * 4, 4);
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* Words of bfloat16, widened: of each word the rows' lower halves, then their upper ones. */
SIMD_INLINE void pack_widened(const int num_rows, const void *const *rows, size_t num_words,
                              float *out, size_t out_step)
{
    _Static_assert(2 * TILE_ROWS <= 8, "one transpose takes both halves");
    for (size_t step = 0; step < num_words; step += 8) {
        size_t rest = num_words - step < 8 ? num_words - step : 8;
        __m256i mask = lanes_below(rest);
        __m256 r[8] = {0};
#pragma GCC unroll 4
        for (int i = 0; i < num_rows; i++) {
            vf words = _mm256_maskload_ps((const float *)rows[i] + step, mask);
            r[i] = vf_lower_half(words);
            r[num_rows + i] = vf_upper_half(words);
        }
        transpose(r);
        for (size_t i = 0; i < rest; i++)
            _mm256_storeu_ps(out + (step + i) * out_step, r[i]);
    }
}
#endif

void SIMD_NAME(tile_pack)(const void *const *rows, int32_t num_rows, enum dtype dtype, size_t k,
                          float *out, size_t out_step)
{
    if (dtype == DTYPE_F32) {
        SIMD_NAME(tile_pack_words)(rows, num_rows, k, out, out_step);
        return;
    }
#if defined(__AVX512BF16__)
    SIMD_NAME(tile_pack_words)(rows, num_rows, k / 2, out, out_step);
    for (int32_t i = 0; i < num_rows && k % 2; i++)
        out[k / 2 * out_step + (size_t)i] = bits_float(((const uint16_t *)rows[i])[k - 1]);
#else
    size_t first = 0; /* of what is left, one by one */
#if defined(__AVX2__) && !defined(__AVX512F__)
    if (num_rows == 1)
        pack_widened(1, rows, k / 2, out, out_step);
    else if (num_rows == 2)
        pack_widened(2, rows, k / 2, out, out_step);
    else
        pack_widened(3, rows, k / 2, out, out_step);
    first = k / 2 * 2;
#endif
    for (int32_t i = 0; i < num_rows; i++) {
        const uint16_t *row = rows[i];
        for (size_t j = first; j < k + k % 2; j++)
            out[j / 2 * out_step + j % 2 * (size_t)num_rows + (size_t)i] =
                j < k ? bf16_to_f32(row[j]) : 0;
    }
#endif
}

void SIMD_NAME(tile_pack_panel)(const void *const *rows, int32_t num_rows, enum dtype dtype,
                                size_t k, float *panel)
{
    size_t num_words = dtype == DTYPE_F32 ? k : k / 2;

    for (int32_t first = 0; first < WEIGHT_PANEL; first += 16) {
        const void *group[16];
        for (int32_t i = 0; i < 16; i++)
            group[i] = rows[first + i < num_rows ? first + i : num_rows - 1];
        SIMD_NAME(tile_pack_words)(group, 16, num_words, panel + first, WEIGHT_PANEL);
        for (int32_t i = 0; i < 16 && dtype == DTYPE_BF16 && k % 2; i++)
            panel[num_words * WEIGHT_PANEL + (size_t)(first + i)] =
                bits_float(load_half(group[i], k - 1));
    }
}

void SIMD_NAME(tile_widen_panel)(const char *panel, size_t num_words, float *out)
{
    for (size_t i = 0; i < num_words; i++) {
#pragma GCC unroll 16
        for (int v = 0; v < TILE_VECTORS; v++) {
            vf words = vf_load(panel + ((size_t)v * VF_LANES + i * WEIGHT_PANEL) * 4);
            float *to = out + i * 2 * WEIGHT_PANEL + (size_t)v * VF_LANES;

            vf_store(to, vf_lower_half(words));
            vf_store(to + WEIGHT_PANEL, vf_upper_half(words));
        }
    }
}
