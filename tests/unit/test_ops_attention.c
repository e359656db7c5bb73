/* test_ops_attention.c - paged attention against float64, and that nothing but a token's own
 * context decides its result. */
#include "tests/unit/ops_fixture.h"

/* Requests side by side in one cache; request r owns the pages r, r + R, r + 2 R, ... */
struct setting {
    enum dtype dtype;
    int32_t num_qo_heads, num_kv_heads, head_dim;
    int32_t page_size, num_requests;
    int32_t max_len; /* positions of each request */
};

struct world {
    struct setting s;
    int32_t pages_per_request;
    int32_t *page_table;
    void *k_cache, *v_cache;
    void *qkv; /* [num_requests * max_len, heads * head_dim]: q of every position */
};

static size_t qkv_width(const struct setting *s)
{
    return (size_t)((s->num_qo_heads + 2 * s->num_kv_heads) * s->head_dim);
}

static size_t slot_of(const struct world *w, int32_t request, int32_t p)
{
    int32_t page = w->page_table[request * w->pages_per_request + p / w->s.page_size];

    return (size_t)(page * w->s.page_size + p % w->s.page_size);
}

static void world_init(struct world *w, const struct setting *s)
{
    *w = (struct world){.s = *s};
    w->pages_per_request = (s->max_len + s->page_size - 1) / s->page_size;
    int32_t num_pages = w->pages_per_request * s->num_requests;
    size_t slot_width = (size_t)(s->num_kv_heads * s->head_dim);
    size_t cache_size = (size_t)(num_pages * s->page_size) * slot_width * dtype_size(s->dtype);

    w->page_table = ops_alloc((size_t)num_pages * sizeof(int32_t));
    for (int32_t i = 0; i < num_pages; i++)
        w->page_table[i] = i % w->pages_per_request * s->num_requests + i / w->pages_per_request;
    w->k_cache = ops_alloc(cache_size); /* slots that are not written are NaN */
    w->v_cache = ops_alloc(cache_size);
    w->qkv = ops_array(s->dtype, (size_t)(s->num_requests * s->max_len) * qkv_width(s), 1.5, 3);
    for (int32_t r = 0; r < s->num_requests; r++) {
        for (int32_t p = 0; p < s->max_len; p++) {
            uint64_t seed = (uint64_t)(r * s->max_len + p) << 20;
            for (size_t i = 0; i < slot_width; i++) {
                size_t at = slot_of(w, r, p) * slot_width + i;
                element_store(w->k_cache, s->dtype, at, (float)ops_random(&seed));
                element_store(w->v_cache, s->dtype, at, (float)ops_random(&seed));
            }
        }
    }
}

static void world_deinit(struct world *w)
{
    free(w->page_table);
    free(w->k_cache);
    free(w->v_cache);
    free(w->qkv);
}

/* The rows of one step: request, first position, number of positions. */
struct row {
    int32_t request, start, extend_len;
};

/* Runs a step; out gets [num_tokens, num_qo_heads * head_dim]. */
static void attend(const struct ops *ops, const struct world *w, const struct row *rows,
                   int32_t num_rows, void *out)
{
    const struct setting *s = &w->s;
    size_t width = qkv_width(s) * dtype_size(s->dtype);
    int32_t *cu_seqlens_q = ops_alloc(((size_t)num_rows + 1) * 4);
    int32_t *kv_lens = ops_alloc((size_t)num_rows * 4);
    int32_t *row_table_idx = ops_alloc((size_t)num_rows * 4);
    int32_t num_tokens = 0, max_extend_len = 0;

    cu_seqlens_q[0] = 0;
    for (int32_t i = 0; i < num_rows; i++) {
        num_tokens += rows[i].extend_len;
        cu_seqlens_q[i + 1] = num_tokens;
        kv_lens[i] = rows[i].start + rows[i].extend_len;
        row_table_idx[i] = rows[i].request;
        if (rows[i].extend_len > max_extend_len)
            max_extend_len = rows[i].extend_len;
    }
    struct ops_limits limits = {.dtype = s->dtype,
                                .max_tokens = num_tokens,
                                .max_rows = num_rows,
                                .max_kv_len = s->max_len,
                                .hidden_size = 1,
                                .num_qo_heads = s->num_qo_heads,
                                .num_kv_heads = s->num_kv_heads,
                                .head_dim = s->head_dim,
                                .vocab_size = 1};
    void *workspace = ops_alloc(ops->kernels->workspace_size(ops->device, &limits));
    char *qkv = ops_alloc((size_t)num_tokens * width);
    for (int32_t i = 0; i < num_rows; i++)
        memcpy(qkv + (size_t)cu_seqlens_q[i] * width,
               (char *)w->qkv + (size_t)(rows[i].request * s->max_len + rows[i].start) * width,
               (size_t)rows[i].extend_len * width);
    struct attention_args args = {.dtype = s->dtype,
                                  .out = out,
                                  .qkv = qkv,
                                  .k_cache = w->k_cache,
                                  .v_cache = w->v_cache,
                                  .page_table = w->page_table,
                                  .page_table_stride = w->pages_per_request,
                                  .page_size = s->page_size,
                                  .cu_seqlens_q = cu_seqlens_q,
                                  .kv_lens = kv_lens,
                                  .row_table_idx = row_table_idx,
                                  .num_tokens = num_tokens,
                                  .num_rows = num_rows,
                                  .max_extend_len = max_extend_len,
                                  .max_kv_len = s->max_len,
                                  .num_qo_heads = s->num_qo_heads,
                                  .num_kv_heads = s->num_kv_heads,
                                  .head_dim = s->head_dim,
                                  .scale = 1 / sqrtf((float)s->head_dim),
                                  .workspace = workspace};
    ops_finish(ops, ops->kernels->attention(ops->stream, &args));
    free(workspace);
    free(qkv);
    free(cu_seqlens_q);
    free(kv_lens);
    free(row_table_idx);
}

/* One head of one token in float64. */
static void check_head(const struct world *w, int32_t request, int32_t position, int32_t head,
                       const void *out, size_t at)
{
    const struct setting *s = &w->s;
    int32_t kv_head = head / (s->num_qo_heads / s->num_kv_heads);
    size_t head_dim = (size_t)s->head_dim;
    size_t q = (size_t)(request * s->max_len + position) * qkv_width(s) + (size_t)head * head_dim;
    double *p = ops_alloc((size_t)(position + 1) * sizeof(double));
    double sum = 0;

    for (int32_t i = 0; i <= position; i++) {
        size_t k = (slot_of(w, request, i) * (size_t)s->num_kv_heads + (size_t)kv_head) * head_dim;
        p[i] = 0;
        for (size_t d = 0; d < head_dim; d++)
            p[i] += ops_at(w->qkv, s->dtype, q + d) * ops_at(w->k_cache, s->dtype, k + d);
        p[i] = exp(p[i] * (double)(1 / sqrtf((float)s->head_dim)));
        sum += p[i];
    }
    for (size_t d = 0; d < head_dim; d++) {
        double want = 0;
        for (int32_t i = 0; i <= position; i++) {
            size_t v =
                (slot_of(w, request, i) * (size_t)s->num_kv_heads + (size_t)kv_head) * head_dim;
            want += p[i] / sum * ops_at(w->v_cache, s->dtype, v + d);
        }
        /* Values are below 1 and weights sum to 1. A score is below 1.5 sqrt(head_dim) and may be
         * wrong by head_dim roundings of that, which the exponential passes on; sums over the
         * positions add less. In bfloat16 the weights may be rounded too, and the output is. */
        double tolerance = 4 * (double)(s->head_dim + position + 20) * ROUND_F32;
        if (s->dtype == DTYPE_BF16)
            tolerance += ROUND_BF16 * (fabs(want) * 1.01 + 0.5);
        ops_check_near(ops_at(out, s->dtype, at + d), want, tolerance);
    }
    free(p);
}

static const struct setting settings[] = {
    {DTYPE_F32, 1, 1, 2, 1, 1, 5},        {DTYPE_F32, 6, 3, 16, 16, 3, 70},
    {DTYPE_F32, 9, 3, 64, 7, 2, 150},     {DTYPE_BF16, 9, 3, 64, 16, 2, 300},
    {DTYPE_BF16, 4, 2, 128, 1, 2, 40},    {DTYPE_BF16, 3, 1, 10, 5, 1, 33},
    {DTYPE_F32, 5, 1, 6, 3, 1, 1},        {DTYPE_F32, 14, 2, 64, 16, 1, 140},
    {DTYPE_BF16, 32, 2, 128, 16, 1, 290},
};

/* A mixed step: the first request in a long chunk, the others decoding, and one in the middle. */
static void check_setting(const struct ops *ops, const struct setting *s)
{
    struct world w;
    struct row rows[8];
    int32_t num_rows = 0, num_tokens = 0;

    world_init(&w, s);
    rows[num_rows++] = (struct row){0, s->max_len / 4, s->max_len - s->max_len / 4};
    rows[num_rows++] = (struct row){s->num_requests - 1, s->max_len - 1, 1};
    rows[num_rows++] = (struct row){0, 0, (s->max_len + 1) / 2};
    rows[num_rows++] = (struct row){0, 0, 1};
    for (int32_t i = 0; i < num_rows; i++)
        num_tokens += rows[i].extend_len;
    size_t width = (size_t)(s->num_qo_heads * s->head_dim);
    void *out = ops_alloc((size_t)num_tokens * width * dtype_size(s->dtype));
    attend(ops, &w, rows, num_rows, out);
    int32_t token = 0;
    for (int32_t i = 0; i < num_rows; i++)
        for (int32_t j = 0; j < rows[i].extend_len; j++, token++)
            for (int32_t head = 0; head < s->num_qo_heads; head++)
                check_head(&w, rows[i].request, rows[i].start + j, head, out,
                           (size_t)token * width + (size_t)(head * s->head_dim));
    free(out);
    world_deinit(&w);
}

START_TEST(attention_equals_float64)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        struct ops ops;
        if (!ops_open(&ops, ops_sets[set], 2))
            continue;
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
            check_setting(&ops, &settings[i]);
        ops_close(&ops);
    }
}
END_TEST

/* One long request, cut into chunks of len, each chunk in a step of its own beside another row. */
static void run_chunks(const struct ops *ops, const struct world *w, int32_t len, char *out)
{
    const struct setting *s = &w->s;
    size_t width = (size_t)(s->num_qo_heads * s->head_dim) * dtype_size(s->dtype);

    for (int32_t start = 0; start < s->max_len; start += len) {
        int32_t rest = s->max_len - start;
        int32_t extend_len = rest < len ? rest : len;
        const struct row rows[] = {{1, start, extend_len}, {0, 3, start % 5 + 1}};
        char *both = ops_alloc((size_t)(extend_len + 5) * width);
        attend(ops, w, rows, 1 + start % 2, both);
        memcpy(out + (size_t)start * width, both, (size_t)extend_len * width);
        free(both);
    }
}

static void check_alone(const char *set, enum dtype dtype)
{
    static const struct {
        int32_t page_size, chunk_len, num_threads;
    } ways[] = {{16, 1000, 1}, {1, 64, 2}, {7, 1, 3}, {16, 7, 2}, {7, 1000, 2}, {1, 129, 3}};
    struct setting s = {.dtype = dtype,
                        .num_qo_heads = 6,
                        .num_kv_heads = 2,
                        .head_dim = 32,
                        .num_requests = 2,
                        .max_len = 300};
    size_t size = (size_t)(s.max_len * s.num_qo_heads * s.head_dim) * dtype_size(dtype);
    char *want = NULL;

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct world w;
        struct ops ops;
        if (!ops_open(&ops, set, ways[i].num_threads))
            break;
        s.page_size = ways[i].page_size;
        world_init(&w, &s);
        char *out = ops_alloc(size);
        run_chunks(&ops, &w, ways[i].chunk_len, out);
        if (!want)
            want = out;
        else
            ck_assert_mem_eq(out, want, size);
        if (out != want)
            free(out);
        world_deinit(&w);
        ops_close(&ops);
    }
    free(want);
}

START_TEST(a_token_depends_on_its_context_alone)
{
    for (size_t set = 0; set < NUM_OPS_SETS; set++) {
        check_alone(ops_sets[set], DTYPE_F32);
        check_alone(ops_sets[set], DTYPE_BF16);
    }
}
END_TEST

CHECK_MAIN("ops_attention", attention_equals_float64, a_token_depends_on_its_context_alone)
