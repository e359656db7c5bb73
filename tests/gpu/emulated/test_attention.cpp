/*
 * test_attention.cpp - attention of rows of one token by attention_decode_stream.cu on the emulated
 * card, against sums of doubles; the parts that it cuts them into.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "kernels/cuda/attention_steps.cuh"
#include "tests/gpu/emulated/gpu.h"
#include "tests/unit/check_main.h"

enum {
    H200_SHARED = 232448,
    SMALL_SHARED = 101376, /* of a card with 99 KB for a block */
    NOWHERE = 0x7FFFFFF,   /* page or row of a table: who uses it meets a fault */
};

static std::mt19937 random_bits(1);
static struct device card = {1, 90, H200_SHARED, true, NULL};

struct shape {
    int head_dim, group, num_kv_heads, page_size;
};

struct row {
    int num_tokens, kv_len;
};

/* Ends where memory ends that may be touched; begins as 0xFF: NaN. */
template <typename T> struct buffer {
    T *data = NULL;
    unsigned char *mapped = NULL;
    size_t mapped_size = 0, num = 0;

    void make(size_t num_elements)
    {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), size = num_elements * sizeof(T);
        size_t usable = (size + page - 1) / page * page;

        num = num_elements;
        mapped_size = usable + page;
        mapped = (unsigned char *)mmap(NULL, mapped_size, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(mapped != MAP_FAILED);
        ck_assert_int_eq(mprotect(mapped + usable, page, PROT_NONE), 0);
        data = (T *)(mapped + usable - size);
        poison();
    }
    void poison()
    {
        memset(mapped, 0xFF, mapped_size - (size_t)sysconf(_SC_PAGESIZE));
    }
    ~buffer()
    {
        if (mapped)
            munmap(mapped, mapped_size);
    }
};

/* One call, and what it is to give. */
struct step {
    struct shape shape;
    std::vector<struct row> rows;
    int num_tokens, table_stride, num_slots;
    struct buffer<int32_t> page_table, cu_seqlens, kv_lens, row_table_idx, counters;
    struct buffer<__nv_bfloat16> qkv, k, v, out;
    struct buffer<float> workspace;
    std::vector<bool> is_newest; /* of slots: written by the kernel before */
    std::vector<double> expected, tolerance;
};

static struct step *current; /* that runs */

static int below(int n)
{
    return (int)(random_bits() % (unsigned)n);
}

static bool is_new(const void *from)
{
    size_t slot_stride = (size_t)(current->shape.num_kv_heads * current->shape.head_dim);
    const __nv_bfloat16 *at = (const __nv_bfloat16 *)from;

    for (const struct buffer<__nv_bfloat16> *cache : {&current->k, &current->v}) {
        if (at >= cache->data && at < cache->data + cache->num)
            return current->is_newest[(size_t)(at - cache->data) / slot_stride];
    }
    return true; /* nothing else is to be copied */
}

static void random_values(__nv_bfloat16 *values, size_t num, float scale)
{
    std::normal_distribution<float> normal(0, scale);

    for (size_t i = 0; i < num; i++)
        store_float(&values[i], normal(random_bits));
}

static int pages_of(const struct step *s, const struct row *row)
{
    return row->num_tokens == 1 ? ceil_div(row->kv_len, s->shape.page_size) : 0;
}

/* Every row has a row of the page table, the longest the last one: what is read behind its pages is
 * read behind the table. */
static void make_tables(struct step *s)
{
    int num_rows = (int)s->rows.size(), longest = 0, num_pages = 2 /* nobody's */, next = 0;
    std::vector<int> order, places;

    s->cu_seqlens.make((size_t)num_rows + 1);
    s->kv_lens.make((size_t)num_rows);
    s->row_table_idx.make((size_t)num_rows);
    s->cu_seqlens.data[0] = s->num_tokens = s->table_stride = 0;
    for (int r = 0; r < num_rows; r++) {
        int pages = pages_of(s, &s->rows[(size_t)r]);

        if (pages > s->table_stride)
            longest = r;
        s->table_stride = max(s->table_stride, pages);
        num_pages += pages;
        s->num_tokens += s->rows[(size_t)r].num_tokens;
        s->cu_seqlens.data[r + 1] = s->num_tokens;
        s->kv_lens.data[r] = s->rows[(size_t)r].kv_len;
        places.push_back(r);
    }
    s->num_slots = num_pages * s->shape.page_size;
    for (int i = 0; i < num_pages; i++)
        order.push_back(i);
    std::shuffle(order.begin(), order.end(), random_bits);
    std::shuffle(places.begin(), places.end(), random_bits);
    s->page_table.make((size_t)(num_rows * s->table_stride));
    std::fill_n(s->page_table.data, s->page_table.num, (int32_t)NOWHERE);
    for (int r = 0; r < num_rows; r++) {
        if (places[(size_t)r] == num_rows - 1)
            std::swap(places[(size_t)r], places[(size_t)longest]);
    }
    for (int r = 0; r < num_rows; r++) {
        int pages = pages_of(s, &s->rows[(size_t)r]), place = places[(size_t)r];

        s->row_table_idx.data[r] = pages ? place : (int)NOWHERE;
        for (int i = 0; i < pages; i++)
            s->page_table.data[place * s->table_stride + i] = order[(size_t)next++];
    }
}

static size_t slot_in(const struct step *s, int row, int position)
{
    int page =
        s->page_table
            .data[s->row_table_idx.data[row] * s->table_stride + position / s->shape.page_size];

    return (size_t)(page * s->shape.page_size + position % s->shape.page_size);
}

/* All else in these buffers stays NaN: other slots, the q of other rows, the k and v behind q. */
static void make_values(struct step *s)
{
    size_t d = (size_t)s->shape.head_dim, kv_heads = (size_t)s->shape.num_kv_heads;
    size_t q_heads = kv_heads * (size_t)s->shape.group;

    s->qkv.make((size_t)s->num_tokens * (q_heads + 2 * kv_heads) * d);
    s->k.make((size_t)s->num_slots * kv_heads * d);
    s->v.make((size_t)s->num_slots * kv_heads * d);
    s->is_newest.resize((size_t)s->num_slots);
    for (int r = 0; r < (int)s->rows.size(); r++) {
        if (s->rows[(size_t)r].num_tokens != 1)
            continue;
        random_values(s->qkv.data + (size_t)s->cu_seqlens.data[r] * (q_heads + 2 * kv_heads) * d,
                      q_heads * d, 1.5F);
        for (int p = 0; p < s->rows[(size_t)r].kv_len; p++) {
            random_values(s->k.data + slot_in(s, r, p) * kv_heads * d, kv_heads * d, 1);
            random_values(s->v.data + slot_in(s, r, p) * kv_heads * d, kv_heads * d, 1);
        }
        s->is_newest[slot_in(s, r, s->rows[(size_t)r].kv_len - 1)] = true;
    }
}

/* A q head of a row. Weights and the result are rounded to bfloat16, by up to 2^-8 each. */
static void expect_head(struct step *s, int row, int head)
{
    size_t d = (size_t)s->shape.head_dim, kv_heads = (size_t)s->shape.num_kv_heads;
    size_t q_heads = kv_heads * (size_t)s->shape.group, token = (size_t)s->cu_seqlens.data[row];
    size_t kv_head = (size_t)(head / s->shape.group), len = (size_t)s->rows[(size_t)row].kv_len;
    const __nv_bfloat16 *q = s->qkv.data + (token * (q_heads + 2 * kv_heads) + (size_t)head) * d;
    std::vector<double> weights(len);
    double largest = -INFINITY, sum = 0;

    for (size_t p = 0; p < len; p++) {
        const __nv_bfloat16 *k = s->k.data + (slot_in(s, row, (int)p) * kv_heads + kv_head) * d;

        for (size_t e = 0; e < d; e++)
            weights[p] += (double)to_float(q[e]) * to_float(k[e]);
        weights[p] /= sqrt((double)d);
        largest = max(largest, weights[p]);
    }
    for (double &weight : weights)
        sum += weight = exp(weight - largest);
    for (size_t p = 0; p < len; p++) {
        const __nv_bfloat16 *v = s->v.data + (slot_in(s, row, (int)p) * kv_heads + kv_head) * d;
        size_t at = (token * q_heads + (size_t)head) * d;

        for (size_t e = 0; e < d; e++) {
            s->expected[at + e] += weights[p] / sum * to_float(v[e]);
            s->tolerance[at + e] += weights[p] / sum * fabsf(to_float(v[e])) / 125;
        }
    }
}

static void make_step(struct step *s, const struct shape *shape,
                      const std::vector<struct row> &rows)
{
    int num_q_heads = shape->num_kv_heads * shape->group;
    struct ops_limits limits = {};

    s->shape = *shape;
    s->rows = rows;
    make_tables(s);
    s->num_tokens++; /* a step is padded with tokens behind its rows */
    make_values(s);
    limits.num_qo_heads = num_q_heads;
    limits.num_kv_heads = shape->num_kv_heads;
    limits.head_dim = shape->head_dim;
    s->workspace.make(attention_decode_workspace(&card, &limits) / sizeof(float));
    s->counters.make((size_t)card.num_sms * 8); /* warps of a block, at most */
    std::fill_n(s->counters.data, s->counters.num, 0);
    s->out.make((size_t)(s->num_tokens * num_q_heads * shape->head_dim));
    s->expected.resize(s->out.num);
    s->tolerance.resize(s->out.num, -1); /* of tokens that are left alone */
    for (int r = 0; r < (int)rows.size(); r++) {
        size_t len = (size_t)(num_q_heads * shape->head_dim);

        if (rows[(size_t)r].num_tokens != 1)
            continue;
        std::fill_n(s->tolerance.begin() + (long)((size_t)s->cu_seqlens.data[r] * len), len, 1e-6);
        for (int head = 0; head < num_q_heads; head++)
            expect_head(s, r, head);
    }
}

static struct attention_args args_of(const struct step *s)
{
    struct attention_args a = {};

    a.dtype = DTYPE_BF16;
    a.out = s->out.data;
    a.qkv = s->qkv.data;
    a.k_cache = s->k.data;
    a.v_cache = s->v.data;
    a.page_table = s->page_table.data;
    a.page_table_stride = s->table_stride;
    a.page_size = s->shape.page_size;
    a.cu_seqlens_q = s->cu_seqlens.data;
    a.kv_lens = s->kv_lens.data;
    a.row_table_idx = s->row_table_idx.data;
    a.num_tokens = s->num_tokens;
    a.num_rows = (int)s->rows.size();
    a.num_qo_heads = s->shape.num_kv_heads * s->shape.group;
    a.num_kv_heads = s->shape.num_kv_heads;
    a.head_dim = s->shape.head_dim;
    a.scale = 1 / sqrtf((float)s->shape.head_dim);
    a.workspace = s->workspace.data;
    return a;
}

static void check_out(const struct step *s, const char *what)
{
    size_t token_len = (size_t)(s->shape.num_kv_heads * s->shape.group * s->shape.head_dim);

    for (size_t at = 0; at < s->out.num; at++) {
        double got = to_float(s->out.data[at]);
        bool is_left = s->tolerance[at] < 0;

        ck_assert_msg(is_left ? s->out.data[at].bits == 0xFFFF
                              : fabs(got - s->expected[at]) <= s->tolerance[at], /* NaN is not */
                      "%s: token %zu, head %zu, element %zu is %g, not %g", what, at / token_len,
                      at % token_len / (size_t)s->shape.head_dim, at % (size_t)s->shape.head_dim,
                      got, is_left ? NAN : s->expected[at]);
    }
}

/* Twice, with copies at once and late: the second time counters and workspace are as the first has
 * left them. */
static void check_rows(const struct shape *shape, const std::vector<struct row> &rows)
{
    struct step step;
    struct stream stream = {&card};
    size_t positions = 0;
    bool is_late = below(2);

    make_step(&step, shape, rows);
    stream.counters = step.counters.data;
    for (const struct row &row : rows)
        positions += row.num_tokens == 1 ? (size_t)row.kv_len : 0;
    current = &step;
    emulated_is_new = is_new;
    for (int i = 0; i < 2; i++) {
        struct attention_args args = args_of(&step);
        char what[160];

        emulated_delays.copies = is_late == (i == 0);
        snprintf(what, sizeof(what),
                 "%zu rows, heads of %d, group %d, %d kv heads, page size %d, %d multiprocessors "
                 "of %d bytes, late %d, run %d",
                 rows.size(), shape->head_dim, shape->group, shape->num_kv_heads, shape->page_size,
                 card.num_sms, card.max_shared_bytes, emulated_delays.copies, i);
        step.out.poison();
        ck_assert_int_eq(attention_decode_stream_launch(&stream, &args).code, STATUS_OK);
        check_out(&step, what);
        for (size_t j = 0; j < step.counters.num; j++)
            ck_assert_msg(step.counters.data[j] == 0, "%s: counter %zu is left", what, j);
        /* K and V are read once, and nothing else */
        ck_assert_msg(emulated_pieces_read() ==
                          positions * (size_t)(shape->num_kv_heads * shape->head_dim / 8 * 2),
                      "%s: %zu pieces of 16 bytes were read", what, emulated_pieces_read());
    }
    emulated_is_new = NULL;
}

/* A row of one token; one that is empty, with a length that nobody set; one of several tokens. */
static struct row random_row(int max_len)
{
    switch (below(8)) {
    case 0:
    case 1:
        return {0, 1000000};
    case 2:
        return {2, 2 + below(max_len)};
    default:
        return {1, 1 + below(max_len)};
    }
}

static std::vector<struct row> random_rows(int num, int max_len)
{
    std::vector<struct row> rows;

    for (int i = 0; i < num; i++)
        rows.push_back(random_row(max_len));
    return rows;
}

/* The kernel wants a warp for each kv head: three a multiprocessor are the fewest. */
static void random_card(int num_kv_heads)
{
    card.num_sms = max(1 + below(6), ceil_div(num_kv_heads, 3));
    card.max_shared_bytes = below(2) ? H200_SHARED : SMALL_SHARED;
}

static int any_of(std::initializer_list<int> values)
{
    return values.begin()[below((int)values.size())];
}

static struct shape random_shape(int head_dim, int group)
{
    return {head_dim, group, any_of({1, 2, 3, 8}), any_of({1, 5, 16})};
}

START_TEST(rows_of_every_shape_agree)
{
    for (int head_dim : {64, 80, 96, 128, 256}) {
        for (int group : {1, 2, 5, 8, 10}) {
            struct shape shape = random_shape(head_dim, group);

            random_card(shape.num_kv_heads);
            check_rows(&shape, random_rows(1 + below(24), 100));
        }
    }
}
END_TEST

/* A row that many parts have a piece of, among others or alone. */
START_TEST(long_row_is_joined)
{
    for (int head_dim : {64, 128, 256}) {
        for (int num_others : {0, 2, 10}) {
            struct shape shape = random_shape(head_dim, any_of({1, 4, 10}));
            std::vector<struct row> rows = random_rows(num_others, 100);

            shape.num_kv_heads = 1 + below(2);
            random_card(shape.num_kv_heads);
            rows.insert(rows.begin() + below(num_others + 1), {1, 600 + below(600)});
            check_rows(&shape, rows);
        }
    }
}
END_TEST

/* Lanes have several rows each, up to more than one for each lane of a lane. */
START_TEST(many_rows_agree)
{
    for (int num : {33, 300, 1100}) {
        struct shape shape = random_shape(64, 2);

        shape.num_kv_heads = num > 1000 ? 1 : 2;
        random_card(shape.num_kv_heads);
        check_rows(&shape, random_rows(num, 20));
    }
}
END_TEST

/* Steps of fewer parts than warps, and of a single part. */
START_TEST(few_steps_agree)
{
    for (int len : {1, 15, 16, 17, 64, 65, 127, 128, 129}) {
        struct shape shape = random_shape(any_of({64, 128}), 3);

        random_card(shape.num_kv_heads);
        check_rows(&shape, {{0, 1000000}, {1, len}, {2, 7}, {0, 1000000}});
    }
}
END_TEST

START_TEST(other_rows_are_left_alone)
{
    struct shape shape = random_shape(128, 2);

    random_card(shape.num_kv_heads);
    check_rows(&shape, {});
    check_rows(&shape, {{0, 1000000}});
    check_rows(&shape, {{2, 50}, {3, 40}});
    check_rows(&shape, std::vector<struct row>(40, {0, 1000000}));
}
END_TEST

struct found {
    struct cut cut;
    struct place at;
};

static void find_parts(struct attention_args a, int max_parts, struct found *out)
{
    int part = (int)(blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    struct place at = {};
    struct cut cut = cut_steps(&a, max_parts, part, &at);

    pdl_wait();
    if (threadIdx.x % WARP == 0)
        out[part] = {cut, at};
}

/* From a part's first step to behind its last, over all rows' first steps begins[]. */
static void check_part(const struct attention_args *a, const struct found *found, int part,
                       const std::vector<int> &begins)
{
    int end = first_step(&found->cut, part + 1);
    struct place at = found->at;

    ck_assert_int_eq(at.step, first_step(&found->cut, part));
    while (at.step < end) {
        size_t row = (size_t)at.row;

        ck_assert_int_eq(part_of(&found->cut, at.step), part);
        ck_assert_int_eq(at.row_begin, begins[row]);
        ck_assert_int_eq(at.row_end, begins[row + 1]);
        ck_assert(at.row_begin <= at.step && at.step < at.row_end);
        next_step(&at, a, end);
    }
    ck_assert_int_eq(at.step, end);
}

/* Only lengths matter here, so rows are as long as they may be. */
START_TEST(parts_are_equal_and_found)
{
    for (int i = 0; i < 60; i++) {
        auto rows = random_rows(below(i % 10 == 0 ? 2500 : 100), i % 3 ? 3000 : 40);
        int max_parts = 1 + below(i % 2 ? 100 : 10), warps = (max_parts + 4) / 4 * 4;
        std::vector<int32_t> cu_seqlens(1), kv_lens;
        std::vector<struct found> found((size_t)warps);
        std::vector<int> begins(1);
        struct attention_args a = {};
        struct stream stream = {&card};

        for (const struct row &row : rows) {
            cu_seqlens.push_back(cu_seqlens.back() + row.num_tokens);
            kv_lens.push_back(row.kv_len);
            begins.push_back(begins.back() +
                             (row.num_tokens == 1 ? ceil_div(row.kv_len, STEP) : 0));
        }
        a.num_rows = (int)rows.size();
        a.cu_seqlens_q = cu_seqlens.data();
        a.kv_lens = kv_lens.data();
        ck_assert_int_eq(launch(&stream, find_parts, dim3((unsigned)warps / 4), 4 * WARP, 0, a,
                                max_parts, found.data()),
                         cudaSuccess);
        for (const struct found &f : found) {
            ck_assert_int_eq(f.cut.total, begins.back());
            ck_assert_int_eq(f.cut.num, max(1, min(max_parts, begins.back() / MIN_PART)));
            ck_assert_int_eq(first_step(&f.cut, 0), 0);
            ck_assert_int_eq(first_step(&f.cut, f.cut.num), f.cut.total);
        }
        for (int part = 0; begins.back() > 0 && part < found[0].cut.num; part++) {
            const struct cut *cut = &found[(size_t)part].cut;
            int len = first_step(cut, part + 1) - first_step(cut, part);

            ck_assert(len == cut->total / cut->num || len == (cut->total - 1) / cut->num + 1);
            check_part(&a, &found[(size_t)part], part, begins);
        }
    }
}
END_TEST

CHECK_MAIN("emulated_attention", parts_are_equal_and_found, rows_of_every_shape_agree,
           long_row_is_joined, many_rows_agree, few_steps_agree, other_rows_are_left_alone)
