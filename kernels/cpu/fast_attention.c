/*
 * fast_attention.c - softmax(q k^T * scale) v over the positions that a token sees, in blocks.
 *
 * A unit is one q head of one token; the units of a row that share a kv head are
 * token * group + head in group. A task takes some units of one row and kv head through the blocks
 * of ATTENTION_BLOCK positions, 0 first:
 *
 *     K of the block as panels (tile.h), V of the block as float32 panels or as it lies
 *     for each tile of units     s = q k^T, its maximum, exponentials and their sum, o = p v
 *                                merge (maximum, sum, o) into what the blocks before gave
 *
 * Blocks start at multiples of ATTENTION_BLOCK and are merged in ascending order, each finished by
 * itself: a token's result depends on its context alone. So blocks may also be tasks of their own
 * where there are too few (a single stream behind a long context), with their results merged
 * afterwards in the same order and by the same arithmetic.
 *
 * A position that a tile holds and one of its units does not see has weight 0 there, which adds
 * nothing unless its V is not finite.
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867.
 */
#include "kernels/cpu/fast_attention_job.h"

enum {
    MAX_UNITS = 192, /* of a task */
    TASKS_PER_THREAD = 4,
};

_Static_assert((int)ATTENTION_BLOCK == (int)TILE_LONG_ROW, "rows of p are rows of a tile");

/* Places in a thread's scratch. */
struct scratch {
    float *k, *v;        /* panels of the block */
    const void **v_rows; /* [ATTENTION_BLOCK]: V as it lies in the cache */
    const void **k_next,
        **v_next;    /* [ATTENTION_BLOCK]: what this thread will probably read next, or NULL */
    bool is_fetched; /* the block at hand, while the one before was at work */
    float *q;        /* tiles of units */
    float *s;        /* [TILE_ROWS][ATTENTION_BLOCK] */
    float *block;    /* [TILE_ROWS][padded_dim]: o of one block */
    float *o;        /* [max_units][padded_dim] */
    struct attention_softmax *state;
};

/* Floats of scratch for each unit, and for all. */
static size_t unit_floats(const struct attention_job *job)
{
    return job->num_steps * tile_floats(job->args->dtype) + job->padded_dim + 2;
}

static size_t block_floats(const struct attention_job *job)
{
    return ATTENTION_BLOCK * job->num_steps + ATTENTION_BLOCK * job->padded_dim +
           TILE_ROWS * (ATTENTION_BLOCK + job->padded_dim) + 8 * TILE_SLACK;
}

static struct scratch get_scratch(const struct attention_job *job, int32_t thread)
{
    struct scratch s = {.v_rows = NULL};

    s.k = pool_scratch(job->pool, thread);
    s.v = s.k + ATTENTION_BLOCK * job->num_steps;
    s.s = s.v + ATTENTION_BLOCK * job->padded_dim;
    s.block = s.s + TILE_ROWS * ATTENTION_BLOCK;
    s.o = s.block + TILE_ROWS * job->padded_dim;
    s.q = s.o + (size_t)job->max_units * job->padded_dim;
    size_t q_size = (size_t)job->max_units * job->num_steps * tile_floats(job->args->dtype);
    s.state = (void *)(s.q + attention_round_up(q_size + TILE_SLACK, TILE_SLACK));
    return s;
}

/* Pages lie anywhere: the hardware does not see the next row coming. */
static void prefetch_rows(const void *const *rows, int32_t n, size_t size)
{
    for (int32_t i = 0; i < n; i++)
        for (size_t at = 0; at < size; at += 64)
            __builtin_prefetch((const char *)rows[i] + at, 0, 3);
}

/* K and V of n positions from first on. */
static void pack_block(const struct attention_job *job, const struct attention_task *task,
                       int32_t first, int32_t n, const struct scratch *s)
{
    const struct attention_args *a = job->args;
    size_t head_dim = (size_t)a->head_dim, size = head_dim * dtype_size(a->dtype);
    const void *k_rows[ATTENTION_BLOCK], **v_rows = s->v_rows;

    SIMD_NAME(attention_find_rows)(job, task, a->k_cache, first, n, k_rows);
    SIMD_NAME(attention_find_rows)(job, task, a->v_cache, first, n, v_rows);
    if (!s->is_fetched) {
        prefetch_rows(k_rows, n, size);
        prefetch_rows(v_rows, n, size);
    }
    for (int32_t i = 0; i < n; i += WEIGHT_PANEL)
        SIMD_NAME(tile_pack_panel)
    (k_rows + i, n - i < WEIGHT_PANEL ? n - i : WEIGHT_PANEL, a->dtype, head_dim,
     s->k + (size_t)i * job->num_steps);
    for (int32_t i = 0; i < n && !attention_uses_rows(job, task); i++) {
        for (size_t d = 0; d < job->padded_dim; d += VF_LANES) {
            size_t rest = d < head_dim ? head_dim - d : 0;
            float *v = s->v + d / WEIGHT_PANEL * WEIGHT_PANEL * ATTENTION_BLOCK + d % WEIGHT_PANEL;
            vf_store(v + (size_t)i * WEIGHT_PANEL, vf_load_row(v_rows[i], a->dtype, d, rest));
        }
    }
}

static void pack_queries(const struct attention_job *job, const struct attention_task *task,
                         const struct scratch *s)
{
    const struct attention_args *a = job->args;
    size_t size = dtype_size(a->dtype) * (size_t)a->head_dim;
    size_t width = size * (size_t)(a->num_qo_heads + 2 * a->num_kv_heads);
    size_t floats = tile_floats(a->dtype);

    for (int32_t first = 0; first < task->num_units; first += TILE_ROWS) {
        int32_t rest = task->num_units - first, num_rows = rest < TILE_ROWS ? rest : TILE_ROWS;
        const void *rows[TILE_ROWS];
        for (int32_t i = 0; i < num_rows; i++) {
            int32_t unit = task->first_unit + first + i;
            size_t token = (size_t)(task->first_token + unit / job->group);
            size_t head = (size_t)(task->kv_head * job->group + unit % job->group);
            rows[i] = (const char *)a->qkv + token * width + head * size;
        }
        SIMD_NAME(tile_pack)
        (rows, num_rows, a->dtype, (size_t)a->head_dim,
         s->q + (size_t)first * job->num_steps * floats, (size_t)num_rows * floats);
    }
}

/* Turns a row of n scores into weights: those from num_seen on are 0. */
static struct attention_softmax weigh(float *s, int32_t n, int32_t num_seen, float scale)
{
    vf max = vf_set1(-INFINITY), sum = vf_set1(0);
    vi lane = vi_set1(0);

    for (int32_t i = 0; i < VF_LANES; i++)
        lane[i] = i;
    for (int32_t i = 0; i < n; i += VF_LANES) {
        vf score = vf_load(s + i) * vf_set1(scale);
        score = vf_select(lane + vi_set1(i) < vi_set1(num_seen), score, vf_set1(-INFINITY));
        max = vf_max(score, max);
        vf_store(s + i, score);
    }
    float largest = vf_largest(max);
    for (int32_t i = 0; i < n; i += VF_LANES) {
        vf weight = vf_exp(vf_load(s + i) - vf_set1(largest));
        sum += weight;
        vf_store(s + i, weight);
    }
    return (struct attention_softmax){.max = largest, .sum = vf_sum(sum)};
}

/* Each panel of V that is read where it lies leaves time to fetch two lines of each row to come:
 * first all of K, then V. In bursts they would not overlap with anything. */
static void look_ahead(const struct attention_job *job, const struct scratch *s, size_t d,
                       struct tile_args *args)
{
    size_t row_size = dtype_size(job->args->dtype) * (size_t)job->args->head_dim;
    size_t at = d / WEIGHT_PANEL * 128;

    if (!s->k_next || at >= 2 * row_size)
        return;
    args->ahead_rows = (const void *)(at < row_size ? s->k_next : s->v_next);
    args->ahead_offset = at < row_size ? at : at - row_size;
}

/* One tile of units from first on (in the task) against a packed block. */
static void run_tile(const struct attention_job *job, const struct attention_task *task,
                     int32_t first, int32_t num_rows, int32_t block, const struct scratch *s)
{
    const struct attention_args *a = job->args;
    int32_t unit = task->first_unit + first;
    int32_t n = attention_unit_limit(job, task, unit + num_rows - 1) - block * ATTENTION_BLOCK;
    struct attention_softmax weights[TILE_ROWS];
    size_t floats = tile_floats(a->dtype);

    if (n <= 0)
        return;
    if (n > ATTENTION_BLOCK)
        n = ATTENTION_BLOCK;
    for (int32_t i = 0; i < n; i += WEIGHT_PANEL) {
        struct tile_args scores = {
            .a = s->q + (size_t)first * job->num_steps * floats,
            .a_step = (size_t)num_rows * floats,
            .panel = (const char *)(s->k + (size_t)i * job->num_steps),
            .num_steps = job->num_steps,
            .c = s->s + i,
            .c_row = ATTENTION_BLOCK,
        };
        if (a->dtype == DTYPE_F32)
            SIMD_NAME(tile_f32)(num_rows, &scores);
        else
            SIMD_NAME(tile_bf16)(num_rows, &scores);
    }
    for (int32_t i = 0; i < num_rows; i++)
        weights[i] =
            weigh(s->s + (size_t)i * ATTENTION_BLOCK, n,
                  attention_unit_limit(job, task, unit + i) - block * ATTENTION_BLOCK, a->scale);
    for (size_t d = 0; d < job->padded_dim; d += WEIGHT_PANEL) {
        struct tile_args output = {.a = s->s,
                                   .panel = (const char *)(s->v + d * ATTENTION_BLOCK),
                                   .num_steps = (size_t)n,
                                   .c = s->block + d,
                                   .c_row = job->padded_dim};
        look_ahead(job, s, d, &output);
        if (attention_uses_rows(job, task))
            SIMD_NAME(tile_rows_long)(num_rows, a->dtype, s->v_rows, d, &output);
        else
            SIMD_NAME(tile_f32_long)(num_rows, &output);
    }
    for (int32_t i = 0; i < num_rows; i++) {
        const float *o = s->block + (size_t)i * job->padded_dim;
        if (attention_unit_limit(job, task, unit + i) <= block * ATTENTION_BLOCK)
            continue; /* sees nothing here */
        if (job->is_split) {
            float *out = attention_partial(job, task, unit + i, block);
            memcpy(out, o, job->padded_dim * sizeof(*o));
            memcpy(out + job->padded_dim, &weights[i], sizeof(weights[i]));
        } else {
            attention_merge(&s->state[first + i], s->o + (size_t)(first + i) * job->padded_dim,
                            weights[i], o, job->padded_dim);
        }
    }
}

static void run_task(void *arg, int32_t number, int32_t thread)
{
    const struct attention_job *job = arg;
    const void *v_rows[ATTENTION_BLOCK], *k_next[ATTENTION_BLOCK], *v_next[ATTENTION_BLOCK];
    struct scratch s = get_scratch(job, thread);
    int32_t block = 0;
    struct attention_task task = SIMD_NAME(attention_find_task)(job, number, &block);
    int32_t end_block = job->is_split ? block + 1 : INT32_MAX;

    for (int32_t i = 0; i < task.num_units && !job->is_split; i++) {
        s.state[i] = (struct attention_softmax){.max = -INFINITY};
        memset(s.o + (size_t)i * job->padded_dim, 0, job->padded_dim * sizeof(*s.o));
    }
    s.v_rows = v_rows;
    s.is_fetched = number >= pool_num_threads(job->pool) && attention_uses_rows(job, &task);
    pack_queries(job, &task, &s);
    for (; block < end_block && SIMD_NAME(attention_block_len)(job, &task, block) > 0; block++) {
        bool is_known = SIMD_NAME(attention_find_ahead)(job, &task, number, block, k_next, v_next);
        s.k_next = is_known ? k_next : NULL;
        s.v_next = is_known ? v_next : NULL;
        pack_block(job, &task, block * ATTENTION_BLOCK,
                   SIMD_NAME(attention_block_len)(job, &task, block), &s);
        for (int32_t first = 0; first < task.num_units; first += TILE_ROWS) {
            int32_t rest = task.num_units - first;
            run_tile(job, &task, first, rest < TILE_ROWS ? rest : TILE_ROWS, block, &s);
        }
        s.is_fetched = is_known;
    }
    for (int32_t i = 0; i < task.num_units && !job->is_split; i++)
        SIMD_NAME(attention_write)
    (job, &task, task.first_unit + i, s.o + (size_t)i * job->padded_dim, s.state[i].sum);
}

/* Enough pieces for all threads, of whole tiles where there is enough for that. */
static int32_t choose_max_units(const struct attention_job *job)
{
    const struct attention_args *a = job->args;
    size_t room = (POOL_SCRATCH_SIZE / sizeof(float) - block_floats(job)) / unit_floats(job);
    size_t wanted = (size_t)a->num_tokens * (size_t)a->num_qo_heads /
                    (size_t)(pool_num_threads(job->pool) * TASKS_PER_THREAD);
    size_t most = room < MAX_UNITS ? room / TILE_ROWS * TILE_ROWS : MAX_UNITS;

    wanted = attention_round_up(wanted > 0 ? wanted : 1, TILE_ROWS);
    return (int32_t)(wanted < most ? wanted : most);
}

void SIMD_NAME(attention)(struct stream *stream, const void *args)
{
    const struct attention_args *a = args;
    struct attention_job job = {
        .args = a,
        .pool = cpu_stream_pool(stream),
        .padded_dim = attention_round_up((size_t)a->head_dim, WEIGHT_PANEL),
        .num_steps = tile_steps(a->dtype, (size_t)a->head_dim),
        .group = a->num_qo_heads / a->num_kv_heads,
        .task_start = a->workspace,
    };
    int32_t num_threads = pool_num_threads(job.pool);

    job.max_units = choose_max_units(&job);
    for (int32_t row = 0; row < a->num_rows; row++) {
        int32_t blocks = (a->kv_lens[row] + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
        job.num_blocks = blocks > job.num_blocks ? blocks : job.num_blocks;
    }
    int32_t num_tasks = SIMD_NAME(attention_count_tasks)(&job);
    if (num_threads > 1 && job.num_blocks > 1 && num_tasks < 3 * num_threads &&
        (size_t)a->num_tokens * (size_t)a->num_qo_heads <=
            attention_split_units(num_threads, a->num_qo_heads, a->num_kv_heads)) {
        job.is_split = true;
        job.partials = (float *)job.task_start + attention_round_up((size_t)a->num_rows + 1, 16);
        num_tasks = SIMD_NAME(attention_count_tasks)(&job);
    }
    pool_run(job.pool, num_tasks, run_task, &job);
    if (job.is_split)
        pool_split(job.pool, a->num_rows * a->num_kv_heads,
                   (size_t)(job.group * job.num_blocks) * job.padded_dim * sizeof(float),
                   SIMD_NAME(attention_merge_range), &job);
}
