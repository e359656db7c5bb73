/*
 * test_attention.c - paged attention over rows of every kind: decode, prefill, prefill behind a
 * cached prefix, and mixes; pages in random order.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/rig.h"

struct shape {
    int32_t num_qo, num_kv, head_dim, page_size;
};

enum { MAX_ROWS = 1200 };

/* extend[r] tokens at the end of kv[r] positions. */
static void check_attention(enum dtype dtype, const struct shape *shape, int32_t num_rows,
                            const int32_t *extend, const int32_t *kv, int32_t loose_max_kv)
{
    int32_t cu_seqlens[MAX_ROWS + 1] = {0}, row_table_idx[MAX_ROWS], max_extend = 0, max_kv = 0;
    int32_t num_pages = 0, stride = 0, next = 0;

    for (int32_t r = 0; r < num_rows; r++) {
        int32_t pages = (kv[r] + shape->page_size - 1) / shape->page_size;

        cu_seqlens[r + 1] = cu_seqlens[r] + extend[r];
        max_extend = extend[r] > max_extend ? extend[r] : max_extend;
        max_kv = kv[r] > max_kv ? kv[r] : max_kv;
        stride = pages + 3 > stride ? pages + 3 : stride;
        num_pages += pages;
    }
    int32_t tokens = cu_seqlens[num_rows];
    int32_t *order = malloc((size_t)num_pages * sizeof(*order));
    int32_t *table = malloc((size_t)((num_rows + 1) * stride) * sizeof(*table));

    ck_assert(order && table);
    for (int32_t i = 0; i < num_pages; i++)
        order[i] = i;
    for (int32_t i = num_pages - 1; i > 0; i--) {
        int32_t j = rig_below(i + 1), page = order[i];
        order[i] = order[j];
        order[j] = page;
    }
    for (int32_t i = 0; i < (num_rows + 1) * stride; i++)
        table[i] = 0x7FFFFFF; /* what is read here and used is a fault */
    for (int32_t r = 0; r < num_rows; r++) {
        row_table_idx[r] = num_rows - r;
        for (int32_t p = 0; p * shape->page_size < kv[r]; p++)
            table[row_table_idx[r] * stride + p] = order[next++];
    }
    size_t cache_len =
        (size_t)(num_pages * shape->page_size) * (size_t)shape->num_kv * (size_t)shape->head_dim;
    size_t heads = (size_t)(shape->num_qo + 2 * shape->num_kv);
    size_t out_len = (size_t)tokens * (size_t)shape->num_qo * (size_t)shape->head_dim, space = 0;
    struct twin qkv = twin_random(dtype, (size_t)tokens * heads * (size_t)shape->head_dim, 1.5f);
    struct twin k = twin_random(dtype, cache_len, 1), v = twin_random(dtype, cache_len, 1);
    struct twin out = twin_poisoned(out_len * dtype_size(dtype));
    struct twin page_table = twin_ints(table, (size_t)((num_rows + 1) * stride));
    struct twin cu = twin_ints(cu_seqlens, (size_t)num_rows + 1);
    struct twin lens = twin_ints(kv, (size_t)num_rows);
    struct twin idx = twin_ints(row_table_idx, (size_t)num_rows);
    const struct ops_limits limits = {.dtype = dtype,
                                      .max_tokens = tokens,
                                      .max_rows = num_rows,
                                      .max_kv_len = max_kv + loose_max_kv,
                                      .hidden_size = 64,
                                      .num_qo_heads = shape->num_qo,
                                      .num_kv_heads = shape->num_kv,
                                      .head_dim = shape->head_dim,
                                      .vocab_size = 64};

    for (int s = 0; s < RIG_NUM; s++) {
        size_t size = rig[s].backend.kernels->workspace_size(rig[s].device, &limits);
        space = size > space ? size : space;
    }
    struct twin workspace = twin_poisoned(space);
    for (int s = 0; s < RIG_NUM; s++) {
        const struct attention_args args = {.dtype = dtype,
                                            .out = out.at[s],
                                            .qkv = qkv.at[s],
                                            .k_cache = k.at[s],
                                            .v_cache = v.at[s],
                                            .page_table = page_table.at[s],
                                            .page_table_stride = stride,
                                            .page_size = shape->page_size,
                                            .cu_seqlens_q = cu.at[s],
                                            .kv_lens = lens.at[s],
                                            .row_table_idx = idx.at[s],
                                            .num_tokens = tokens,
                                            .num_rows = num_rows,
                                            .max_extend_len = max_extend,
                                            .max_kv_len = max_kv + loose_max_kv,
                                            .num_qo_heads = shape->num_qo,
                                            .num_kv_heads = shape->num_kv,
                                            .head_dim = shape->head_dim,
                                            .scale = 1 / sqrtf((float)shape->head_dim),
                                            .workspace = workspace.at[s]};
        rig_ok(rig[s].backend.kernels->attention(rig[s].stream, &args));
    }
    char what[128];
    snprintf(what, sizeof(what), "attention %d/%d heads of %d, page %d, %d rows, %d tokens, kv %d",
             shape->num_qo, shape->num_kv, shape->head_dim, shape->page_size, num_rows, tokens,
             max_kv);
    /* float32: scores of size 10 and more in exponentials; bfloat16: also rounded weights */
    twin_compare(&out, dtype, out_len, dtype == DTYPE_F32 ? 1e-5 : 6e-3, what);
    free(order);
    free(table);
}

static const struct shape shapes[] = {
    {2, 1, 8, 4},    {3, 3, 24, 1},    {4, 2, 64, 16},  {9, 3, 64, 5},   {8, 2, 80, 16},
    {4, 4, 96, 16},  {16, 8, 128, 16}, {10, 2, 128, 1}, {8, 1, 128, 64}, {16, 1, 128, 16},
    {24, 1, 64, 16}, {4, 2, 256, 16},  {2, 1, 60, 16},  {2, 2, 20, 16}};

START_TEST(decode_rows)
{
    int32_t extend[MAX_ROWS], kv[MAX_ROWS];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int round = 0; round < 4; round++) {
            int32_t rows = round == 0 ? 1 : round == 3 ? 50 : 1 + rig_below(9);

            for (int32_t r = 0; r < rows; r++) {
                extend[r] = 1;
                kv[r] = 1 + rig_below(round == 0 ? 700 : r % 2 ? 20 : 300);
            }
            check_attention(DTYPE_BF16, &shapes[i], rows, extend, kv, round * 1000);
            if (round < 2)
                check_attention(DTYPE_F32, &shapes[i], rows, extend, kv, round * 1000);
        }
    }
}
END_TEST

START_TEST(prefill_rows)
{
    int32_t extend[MAX_ROWS], kv[MAX_ROWS];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int round = 0; round < 3; round++) {
            int32_t rows = round == 0 ? 1 : 1 + rig_below(4);

            for (int32_t r = 0; r < rows; r++) {
                extend[r] = 2 + rig_below(round == 1 ? 30 : 150);
                kv[r] = extend[r] + (round == 0 ? 0 : rig_below(100));
            }
            check_attention(DTYPE_BF16, &shapes[i], rows, extend, kv, 0);
            if (round == 1)
                check_attention(DTYPE_F32, &shapes[i], rows, extend, kv, 0);
        }
    }
}
END_TEST

START_TEST(mixed_rows)
{
    int32_t extend[MAX_ROWS], kv[MAX_ROWS];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int32_t r = 0; r < 12; r++) {
            extend[r] = r % 3 ? 1 : 1 + rig_below(70);
            kv[r] = extend[r] + rig_below(150);
        }
        check_attention(DTYPE_BF16, &shapes[i], 12, extend, kv, 5);
        check_attention(DTYPE_F32, &shapes[i], 12, extend, kv, 5);
    }
}
END_TEST

/*
 * Pairs of a row and a kv head by the thousand: the warps of the card share them out. First rows of
 * one token, then some are empty, then some have two. Lengths that end with a step, and one that
 * many warps have a part of.
 */
START_TEST(many_rows)
{
    int32_t extend[MAX_ROWS], kv[MAX_ROWS];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        int32_t rows = 1030 / shapes[i].num_kv + rig_below(100);

        for (int round = 0; round < 3; round++) {
            for (int32_t r = 0; r < rows; r++) {
                extend[r] = rig_below(4) ? 1 : round == 0 ? 1 : rig_below(round + 1);
                kv[r] = r % 3 ? 1 + rig_below(50) : 16 * (1 + rig_below(3));
                kv[r] = extend[r] == 0 ? 0 : kv[r] < extend[r] ? extend[r] : kv[r];
            }
            extend[rows / 2] = 1;
            kv[rows / 2] = 1 + rig_below(2000);
            check_attention(DTYPE_BF16, &shapes[i], rows, extend, kv, round * 1000);
        }
    }
}
END_TEST

/* The kernel of many rows runs, and finds none of one token. */
START_TEST(many_rows_of_two)
{
    static const struct shape shape = {16, 8, 128, 16};
    int32_t extend[100], kv[100];

    for (int32_t r = 0; r < 100; r++) {
        extend[r] = 2;
        kv[r] = 2 + rig_below(40);
    }
    check_attention(DTYPE_BF16, &shape, 100, extend, kv, 0);
}
END_TEST

START_TEST(long_context)
{
    static const struct shape shape = {16, 8, 128, 16};
    static const int32_t one[] = {1, 1}, many[] = {70, 29}, kv[] = {4000, 1500};
    int32_t ones[100], lens[100];

    check_attention(DTYPE_BF16, &shape, 2, one, kv, 30000);
    check_attention(DTYPE_BF16, &shape, 2, many, kv, 0);
    for (int32_t r = 0; r < 100; r++) { /* one that most of the card's warps have a part of */
        ones[r] = 1;
        lens[r] = r == 17 ? 9000 : 3;
    }
    check_attention(DTYPE_BF16, &shape, 100, ones, lens, 0);
}
END_TEST

RIG_MAIN("attention", decode_rows, many_rows, many_rows_of_two, prefill_rows, mixed_rows,
         long_context)
