/*
 * fast_attention.c - softmax(q k^T * scale) v over the positions that a token sees, in blocks.
 *
 * A unit is one q head of one token; the units of a row that share a kv head are
 * token * group + head in group. A task takes some units of one row and kv head through the blocks
 * of BLOCK positions, 0 first:
 *
 *     K of the block as panels (tile.h), V of the block as float32 panels or as it lies
 *     for each tile of units     s = q k^T, its maximum, exponentials and their sum, o = p v
 *                                merge (maximum, sum, o) into what the blocks before gave
 *
 * Blocks start at multiples of BLOCK and are merged in ascending order, each finished by itself:
 * a token's result depends on its context alone. So blocks may also be tasks of their own where
 * there are too few (a single stream behind a long context), with their results merged afterwards
 * in the same order and by the same arithmetic.
 *
 * A position that a tile holds and one of its units does not see has weight 0 there, which adds
 * nothing unless its V is not finite.
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867.
 */
#include "kernels/cpu/fast_attention.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/tile.h"
#include "kernels/ops.h"

enum {
    BLOCK = ATTENTION_BLOCK,
    MAX_UNITS = 192, /* of a task */
    TASKS_PER_THREAD = 4,
};

_Static_assert((int)BLOCK == (int)TILE_LONG_ROW, "rows of p are rows of a tile");

/* The running result of a unit, or that of one block. */
struct softmax {
    float max, sum;
};

struct job {
    const struct attention_args *args;
    struct pool *pool;
    size_t padded_dim;   /* head_dim up to whole panels */
    size_t num_steps;    /* of head_dim */
    int32_t group;       /* q heads of a kv head */
    int32_t max_units;   /* of a task */
    bool is_split;       /* a task is one block */
    int32_t num_blocks;  /* of the longest row */
    int32_t *task_start; /* [num_rows + 1], in the workspace */
    float *partials;     /* [num_tokens][num_qo_heads][num_blocks][padded_dim + 2], there too */
};

struct task {
    int32_t row, kv_head;
    int32_t first_token, extend_len, kv_len;
    int32_t first_unit, num_units;
};

/* Places in a thread's scratch. */
struct scratch {
    float *k, *v;                  /* panels of the block */
    const void **v_rows;           /* [BLOCK]: V as it lies in the cache */
    const void **k_next, **v_next; /* [BLOCK]: what this thread will probably read next, or NULL */
    bool is_fetched;               /* the block at hand, while the one before was at work */
    float *q;                      /* tiles of units */
    float *s;                      /* [TILE_ROWS][BLOCK] */
    float *block;                  /* [TILE_ROWS][padded_dim]: o of one block */
    float *o;                      /* [max_units][padded_dim] */
    struct softmax *state;
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Floats of scratch for each unit, and for all. */
static size_t unit_floats(const struct job *job)
{
    return job->num_steps * tile_floats(job->args->dtype) + job->padded_dim + 2;
}

static size_t block_floats(const struct job *job)
{
    return BLOCK * job->num_steps + BLOCK * job->padded_dim +
           TILE_ROWS * (BLOCK + job->padded_dim) + 8 * TILE_SLACK;
}

static struct scratch get_scratch(const struct job *job, int32_t thread)
{
    struct scratch s = {.v_rows = NULL};

    s.k = pool_scratch(job->pool, thread);
    s.v = s.k + BLOCK * job->num_steps;
    s.s = s.v + BLOCK * job->padded_dim;
    s.block = s.s + TILE_ROWS * BLOCK;
    s.o = s.block + TILE_ROWS * job->padded_dim;
    s.q = s.o + (size_t)job->max_units * job->padded_dim;
    size_t q_size = (size_t)job->max_units * job->num_steps * tile_floats(job->args->dtype);
    s.state = (void *)(s.q + round_up(q_size + TILE_SLACK, TILE_SLACK));
    return s;
}

/* Positions that a unit sees. */
static int32_t unit_limit(const struct job *job, const struct task *task, int32_t unit)
{
    return task->kv_len - task->extend_len + unit / job->group + 1;
}

/* rows[i] = the head's elements at position first + i in a cache, for i < n. */
static void find_rows(const struct job *job, const struct task *task, const void *cache,
                      int32_t first, int32_t n, const void **rows)
{
    const struct attention_args *a = job->args;
    const int32_t *pages =
        a->page_table + (size_t)a->row_table_idx[task->row] * (size_t)a->page_table_stride;
    size_t size = dtype_size(a->dtype) * (size_t)a->head_dim;
    size_t slot_size = size * (size_t)a->num_kv_heads;
    const char *head = (const char *)cache + size * (size_t)task->kv_head;
    int32_t page = first / a->page_size, offset = first % a->page_size;

    for (int32_t i = 0; i < n; page++, offset = 0) {
        size_t slot = (size_t)pages[page] * (size_t)a->page_size;
        for (; i < n && offset < a->page_size; i++, offset++)
            rows[i] = head + (slot + (size_t)offset) * slot_size;
    }
}

/* Whether V is read where it lies: packing it does not pay for a single tile. */
static bool uses_rows(const struct job *job, const struct task *task)
{
    return task->num_units <= TILE_ROWS && job->padded_dim == (size_t)job->args->head_dim;
}

/* Pages lie anywhere: the hardware does not see the next row coming. */
static void prefetch_rows(const void *const *rows, int32_t n, size_t size)
{
    for (int32_t i = 0; i < n; i++)
        for (size_t at = 0; at < size; at += 64)
            __builtin_prefetch((const char *)rows[i] + at, 0, 3);
}

/* K and V of n positions from first on. */
static void pack_block(const struct job *job, const struct task *task, int32_t first, int32_t n,
                       const struct scratch *s)
{
    const struct attention_args *a = job->args;
    size_t head_dim = (size_t)a->head_dim, size = head_dim * dtype_size(a->dtype);
    const void *k_rows[BLOCK], **v_rows = s->v_rows;

    find_rows(job, task, a->k_cache, first, n, k_rows);
    find_rows(job, task, a->v_cache, first, n, v_rows);
    if (!s->is_fetched) {
        prefetch_rows(k_rows, n, size);
        prefetch_rows(v_rows, n, size);
    }
    for (int32_t i = 0; i < n; i += WEIGHT_PANEL)
        SIMD_NAME(tile_pack_panel)
    (k_rows + i, n - i < WEIGHT_PANEL ? n - i : WEIGHT_PANEL, a->dtype, head_dim,
     s->k + (size_t)i * job->num_steps);
    for (int32_t i = 0; i < n && !uses_rows(job, task); i++) {
        for (size_t d = 0; d < job->padded_dim; d += VF_LANES) {
            size_t rest = d < head_dim ? head_dim - d : 0;
            float *v = s->v + d / WEIGHT_PANEL * WEIGHT_PANEL * BLOCK + d % WEIGHT_PANEL;
            vf_store(v + (size_t)i * WEIGHT_PANEL, vf_load_row(v_rows[i], a->dtype, d, rest));
        }
    }
}

static void pack_queries(const struct job *job, const struct task *task, const struct scratch *s)
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
static struct softmax weigh(float *s, int32_t n, int32_t num_seen, float scale)
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
    return (struct softmax){.max = largest, .sum = vf_sum(sum)};
}

/* Adds a block's result to the running one. state->max is -infinity and o zero at first. */
static void merge(struct softmax *state, float *o, struct softmax block, const float *block_o,
                  size_t padded_dim)
{
    float max = block.max > state->max ? block.max : state->max;
    vf both = vf_set1(state->max - max);

    both[1] = block.max - max;
    both = vf_exp(both);
    float old_part = both[0], new_part = both[1];
    state->max = max;
    state->sum = state->sum * old_part + block.sum * new_part;
    for (size_t d = 0; d < padded_dim; d += VF_LANES) {
        vf add = vf_load(block_o + d) * vf_set1(new_part);
        vf_store(o + d, vf_fma(vf_load(o + d), vf_set1(old_part), add));
    }
}

/* The places of a unit's block in the workspace: o, then maximum and sum. */
static float *partial(const struct job *job, const struct task *task, int32_t unit, int32_t block)
{
    size_t token = (size_t)(task->first_token + unit / job->group);
    size_t head = (size_t)(task->kv_head * job->group + unit % job->group);
    size_t index = token * (size_t)job->args->num_qo_heads + head;

    return job->partials +
           (index * (size_t)job->num_blocks + (size_t)block) * (job->padded_dim + 2);
}

/* Each panel of V that is read where it lies leaves time to fetch two lines of each row to come:
 * first all of K, then V. In bursts they would not overlap with anything. */
static void look_ahead(const struct job *job, const struct scratch *s, size_t d,
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
static void run_tile(const struct job *job, const struct task *task, int32_t first,
                     int32_t num_rows, int32_t block, const struct scratch *s)
{
    const struct attention_args *a = job->args;
    int32_t unit = task->first_unit + first;
    int32_t n = unit_limit(job, task, unit + num_rows - 1) - block * BLOCK;
    struct softmax weights[TILE_ROWS];
    size_t floats = tile_floats(a->dtype);

    if (n <= 0)
        return;
    if (n > BLOCK)
        n = BLOCK;
    for (int32_t i = 0; i < n; i += WEIGHT_PANEL) {
        struct tile_args scores = {
            .a = s->q + (size_t)first * job->num_steps * floats,
            .a_step = (size_t)num_rows * floats,
            .panel = (const char *)(s->k + (size_t)i * job->num_steps),
            .num_steps = job->num_steps,
            .c = s->s + i,
            .c_row = BLOCK,
        };
        if (a->dtype == DTYPE_F32)
            SIMD_NAME(tile_f32)(num_rows, &scores);
        else
            SIMD_NAME(tile_bf16)(num_rows, &scores);
    }
    for (int32_t i = 0; i < num_rows; i++)
        weights[i] = weigh(s->s + (size_t)i * BLOCK, n,
                           unit_limit(job, task, unit + i) - block * BLOCK, a->scale);
    for (size_t d = 0; d < job->padded_dim; d += WEIGHT_PANEL) {
        struct tile_args output = {.a = s->s,
                                   .panel = (const char *)(s->v + d * BLOCK),
                                   .num_steps = (size_t)n,
                                   .c = s->block + d,
                                   .c_row = job->padded_dim};
        look_ahead(job, s, d, &output);
        if (uses_rows(job, task))
            SIMD_NAME(tile_rows_long)(num_rows, a->dtype, s->v_rows, d, &output);
        else
            SIMD_NAME(tile_f32_long)(num_rows, &output);
    }
    for (int32_t i = 0; i < num_rows; i++) {
        const float *o = s->block + (size_t)i * job->padded_dim;
        if (unit_limit(job, task, unit + i) <= block * BLOCK)
            continue; /* sees nothing here */
        if (job->is_split) {
            float *out = partial(job, task, unit + i, block);
            memcpy(out, o, job->padded_dim * sizeof(*o));
            memcpy(out + job->padded_dim, &weights[i], sizeof(weights[i]));
        } else {
            merge(&s->state[first + i], s->o + (size_t)(first + i) * job->padded_dim, weights[i], o,
                  job->padded_dim);
        }
    }
}

static void write_out(const struct job *job, const struct task *task, int32_t unit, const float *o,
                      float sum)
{
    const struct attention_args *a = job->args;
    size_t token = (size_t)(task->first_token + unit / job->group);
    size_t head = (size_t)(task->kv_head * job->group + unit % job->group);
    size_t head_dim = (size_t)a->head_dim;
    size_t out = (token * (size_t)a->num_qo_heads + head) * head_dim;

    for (size_t d = 0; d < head_dim; d += VF_LANES)
        vf_store_row(a->out, a->dtype, out + d, head_dim - d, vf_load(o + d) / vf_set1(sum));
}

/* Tasks of a row for each kv head, without blocks. */
static int32_t num_pieces(const struct job *job, int32_t row)
{
    const int32_t *cu = job->args->cu_seqlens_q;
    int32_t num_units = (cu[row + 1] - cu[row]) * job->group;

    return (num_units + job->max_units - 1) / job->max_units;
}

static int32_t row_blocks(const struct job *job, int32_t row)
{
    return job->is_split ? (job->args->kv_lens[row] + BLOCK - 1) / BLOCK : 1;
}

/* The task of that number, and its block where it is one. The last pieces of a row are the longest:
 * they come first. */
static struct task find_task(const struct job *job, int32_t number, int32_t *out_block)
{
    const struct attention_args *a = job->args;
    int32_t low = 0, high = a->num_rows;

    number = job->task_start[a->num_rows] - 1 - number;
    while (high - low > 1) { /* task_start[low] <= number < task_start[high] */
        int32_t middle = low + (high - low) / 2;
        if (job->task_start[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    int32_t blocks = row_blocks(job, low), index = number - job->task_start[low];
    int32_t piece = index / blocks / a->num_kv_heads;
    struct task task = {
        .row = low,
        .kv_head = index / blocks % a->num_kv_heads,
        .first_token = a->cu_seqlens_q[low],
        .extend_len = a->cu_seqlens_q[low + 1] - a->cu_seqlens_q[low],
        .kv_len = a->kv_lens[low],
        .first_unit = piece * job->max_units,
    };
    int32_t rest = task.extend_len * job->group - task.first_unit;
    task.num_units = rest < job->max_units ? rest : job->max_units;
    *out_block = index % blocks;
    return task;
}

/* Finds the rows of n positions, and repeats the last up to a whole block. */
static void find_next(const struct job *job, const struct task *task, int32_t first, int32_t n,
                      const void **k_rows, const void **v_rows)
{
    find_rows(job, task, job->args->k_cache, first, n, k_rows);
    find_rows(job, task, job->args->v_cache, first, n, v_rows);
    for (int32_t i = n; i < BLOCK; i++) {
        k_rows[i] = k_rows[n - 1];
        v_rows[i] = v_rows[n - 1];
    }
}

/* Positions of a block that any unit of a task sees; 0 or less behind the last. */
static int32_t block_len(const struct job *job, const struct task *task, int32_t block)
{
    int32_t n = unit_limit(job, task, task->first_unit + task->num_units - 1) - block * BLOCK;

    return n < BLOCK ? n : BLOCK;
}

/* What this thread will probably read after a block: the next one, or the first of the task that is
 * its turn when all threads have taken one. False where V is packed, or nothing follows. */
static bool find_ahead(const struct job *job, const struct task *task, int32_t number,
                       int32_t block, const void **k_rows, const void **v_rows)
{
    int32_t next_number = number + pool_num_threads(job->pool), next_block = 0;

    if (!uses_rows(job, task))
        return false;
    if (!job->is_split && block_len(job, task, block + 1) > 0) {
        find_next(job, task, (block + 1) * BLOCK, block_len(job, task, block + 1), k_rows, v_rows);
        return true;
    }
    if (next_number >= job->task_start[job->args->num_rows])
        return false;
    struct task next = find_task(job, next_number, &next_block);
    find_next(job, &next, next_block * BLOCK, block_len(job, &next, next_block), k_rows, v_rows);
    return true;
}

static void run_task(void *arg, int32_t number, int32_t thread)
{
    const struct job *job = arg;
    const void *v_rows[BLOCK], *k_next[BLOCK], *v_next[BLOCK];
    struct scratch s = get_scratch(job, thread);
    int32_t block = 0;
    struct task task = find_task(job, number, &block);
    int32_t end_block = job->is_split ? block + 1 : INT32_MAX;

    for (int32_t i = 0; i < task.num_units && !job->is_split; i++) {
        s.state[i] = (struct softmax){.max = -INFINITY};
        memset(s.o + (size_t)i * job->padded_dim, 0, job->padded_dim * sizeof(*s.o));
    }
    s.v_rows = v_rows;
    s.is_fetched = number >= pool_num_threads(job->pool) && uses_rows(job, &task);
    pack_queries(job, &task, &s);
    for (; block < end_block && block_len(job, &task, block) > 0; block++) {
        bool is_known = find_ahead(job, &task, number, block, k_next, v_next);
        s.k_next = is_known ? k_next : NULL;
        s.v_next = is_known ? v_next : NULL;
        pack_block(job, &task, block * BLOCK, block_len(job, &task, block), &s);
        for (int32_t first = 0; first < task.num_units; first += TILE_ROWS) {
            int32_t rest = task.num_units - first;
            run_tile(job, &task, first, rest < TILE_ROWS ? rest : TILE_ROWS, block, &s);
        }
        s.is_fetched = is_known;
    }
    for (int32_t i = 0; i < task.num_units && !job->is_split; i++)
        write_out(job, &task, task.first_unit + i, s.o + (size_t)i * job->padded_dim,
                  s.state[i].sum);
}

/* Merges the blocks of the units of one kv head of one row. */
static void merge_blocks(const struct job *job, int32_t row, int32_t kv_head)
{
    const struct attention_args *a = job->args;
    float o[ATTENTION_MAX_HEAD_DIM];
    struct task task = {.row = row,
                        .kv_head = kv_head,
                        .first_token = a->cu_seqlens_q[row],
                        .extend_len = a->cu_seqlens_q[row + 1] - a->cu_seqlens_q[row],
                        .kv_len = a->kv_lens[row]};

    for (int32_t unit = 0; unit < task.extend_len * job->group; unit++) {
        struct softmax state = {.max = -INFINITY}, block_state;
        memset(o, 0, job->padded_dim * sizeof(*o));
        for (int32_t block = 0; block * BLOCK < unit_limit(job, &task, unit); block++) {
            const float *block_o = partial(job, &task, unit, block);
            memcpy(&block_state, block_o + job->padded_dim, sizeof(block_state));
            merge(&state, o, block_state, block_o, job->padded_dim);
        }
        write_out(job, &task, unit, o, state.sum);
    }
}

static void merge_range(const void *args, int32_t first, int32_t end)
{
    const struct job *job = args;
    int32_t num_kv_heads = job->args->num_kv_heads;

    for (int32_t i = first; i < end; i++)
        merge_blocks(job, i / num_kv_heads, i % num_kv_heads);
}

/* Fills task_start; returns the number of tasks. */
static int32_t count_tasks(struct job *job)
{
    const struct attention_args *a = job->args;

    job->task_start[0] = 0;
    for (int32_t row = 0; row < a->num_rows; row++)
        job->task_start[row + 1] =
            job->task_start[row] + num_pieces(job, row) * a->num_kv_heads * row_blocks(job, row);
    return job->task_start[a->num_rows];
}

/* Enough pieces for all threads, of whole tiles where there is enough for that. */
static int32_t choose_max_units(const struct job *job)
{
    const struct attention_args *a = job->args;
    size_t room = (POOL_SCRATCH_SIZE / sizeof(float) - block_floats(job)) / unit_floats(job);
    size_t wanted = (size_t)a->num_tokens * (size_t)a->num_qo_heads /
                    (size_t)(pool_num_threads(job->pool) * TASKS_PER_THREAD);
    size_t most = room < MAX_UNITS ? room / TILE_ROWS * TILE_ROWS : MAX_UNITS;

    wanted = round_up(wanted > 0 ? wanted : 1, TILE_ROWS);
    return (int32_t)(wanted < most ? wanted : most);
}

void SIMD_NAME(attention)(struct stream *stream, const void *args)
{
    const struct attention_args *a = args;
    struct job job = {
        .args = a,
        .pool = cpu_stream_pool(stream),
        .padded_dim = round_up((size_t)a->head_dim, WEIGHT_PANEL),
        .num_steps = tile_steps(a->dtype, (size_t)a->head_dim),
        .group = a->num_qo_heads / a->num_kv_heads,
        .task_start = a->workspace,
    };
    int32_t num_threads = pool_num_threads(job.pool);

    job.max_units = choose_max_units(&job);
    for (int32_t row = 0; row < a->num_rows; row++) {
        int32_t blocks = (a->kv_lens[row] + BLOCK - 1) / BLOCK;
        job.num_blocks = blocks > job.num_blocks ? blocks : job.num_blocks;
    }
    int32_t num_tasks = count_tasks(&job);
    if (num_threads > 1 && job.num_blocks > 1 && num_tasks < 3 * num_threads &&
        (size_t)a->num_tokens * (size_t)a->num_qo_heads <=
            attention_split_units(num_threads, a->num_qo_heads, a->num_kv_heads)) {
        job.is_split = true;
        job.partials = (float *)job.task_start + round_up((size_t)a->num_rows + 1, 16);
        num_tasks = count_tasks(&job);
    }
    pool_run(job.pool, num_tasks, run_task, &job);
    if (job.is_split)
        pool_split(job.pool, a->num_rows * a->num_kv_heads,
                   (size_t)(job.group * job.num_blocks) * job.padded_dim * sizeof(float),
                   merge_range, &job);
}
