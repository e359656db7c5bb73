/*
 * fast_linear.c - y = x W^T + bias in tiles (tile.h).
 *
 * A task is a block of rows by a range of panels. It packs its rows once for each stretch of k and
 * runs them against each panel, so that the panel is read from memory once and then from cache:
 *
 *     for each stretch of k          rows of x packed, at most PACKED_SIZE
 *         for each panel
 *             for each tile of rows  c kept between stretches, in float32: the order of summation
 *                                    does not change
 *
 * With few rows memory is the limit: one stretch, and ranges of panels small enough for the threads
 * to end together. With many, stretches keep a panel's part and the packed rows in cache, and where
 * there is no instruction for bfloat16 the part is widened to float32 once for all tiles.
 */
#include "kernels/cpu/fast.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/tile.h"
#include "kernels/ops.h"

enum {
    BLOCK_ROWS = 48,          /* of a task, where there are many */
    FEW_ROWS = 2 * TILE_ROWS, /* up to here memory is the limit */
    MAX_PANELS = 16,          /* of a task */
    STRETCH = 512,            /* steps, with many rows */
    TASK_BYTES = 48 << 10,    /* of weights: below, a task is not worth handing out */
    TASKS_PER_THREAD = 4,
    WIDEN_TILES = 5, /* and more; blocks of AVX512's larger tiles never have them */
    C_SIZE = MAX_PANELS * BLOCK_ROWS * WEIGHT_PANEL, /* floats */
    WIDE_SIZE = TILE_BF16_FLOATS == 2 ? STRETCH * 2 * WEIGHT_PANEL : 0,
    PACKED_SIZE = POOL_SCRATCH_SIZE / 4 - C_SIZE - WIDE_SIZE - TILE_SLACK,
};

_Static_assert(PACKED_SIZE > BLOCK_ROWS * STRETCH * 2, "the scratch holds a stretch of rows");
_Static_assert((WIDEN_TILES - 1) * TILE_ROWS >= FEW_ROWS, "what is widened is one stretch");

struct job {
    const struct linear_args *args;
    struct pool *pool;
    int32_t rows_per_task, panels_per_task, num_panel_tasks;
    size_t num_steps, stretch;
};

/* A block of rows, and the stretch of k that it is at. */
struct block {
    int32_t first_row, num_rows, num_tiles;
    size_t first_step, num_steps;
    bool is_last;         /* stretch */
    bool widens;          /* panels, to float32 */
    float *packed, *wide; /* the rows; a panel's part */
};

/* Rows of one task: cut into tiles as even as can be. */
static int32_t tile_start(int32_t num_rows, int32_t num_tiles, int32_t tile)
{
    return (int32_t)((int64_t)num_rows * tile / num_tiles);
}

/* Writes a tile's sums to y. c has WEIGHT_PANEL columns. */
static void finish(const struct linear_args *a, int32_t panel, int32_t first_row, int32_t num_rows,
                   const float *c)
{
    const struct linear_weight *weight = a->weight;
    size_t column = (size_t)panel * WEIGHT_PANEL, n = (size_t)weight->n;

    for (int32_t m = 0; m < num_rows; m++) {
        size_t y = (size_t)(first_row + m) * n + column;
        for (size_t i = 0; i < WEIGHT_PANEL && column + i < n; i += VF_LANES) {
            size_t rest = n - column - i;
            vf sum = vf_load(c + (size_t)m * WEIGHT_PANEL + i);
            if (weight->bias)
                sum += vf_load(weight->bias + column + i);
            if (a->accumulate)
                sum += vf_load_row(a->y, a->y_dtype, y + i, rest);
            vf_store_row(a->y, a->y_dtype, y + i, rest, sum);
        }
    }
}

/* Packs the block's rows of x, one tile behind the other. */
static void pack(const struct job *job, const struct block *b)
{
    const struct linear_weight *weight = job->args->weight;
    size_t elements_per_step = weight->dtype == DTYPE_F32 ? 1 : 2;
    size_t start = b->first_step * elements_per_step, k = b->num_steps * elements_per_step;
    const char *x = (const char *)job->args->x + start * dtype_size(weight->dtype);
    size_t row_size = (size_t)weight->k * dtype_size(weight->dtype);
    float *packed = b->packed;

    if (k > (size_t)weight->k - start) /* half a word at the end */
        k = (size_t)weight->k - start;
    for (int32_t tile = 0; tile < b->num_tiles; tile++) {
        int32_t begin = tile_start(b->num_rows, b->num_tiles, tile);
        int32_t end = tile_start(b->num_rows, b->num_tiles, tile + 1);
        const void *rows[TILE_ROWS];
        for (int32_t i = 0; i < end - begin; i++)
            rows[i] = x + (size_t)(b->first_row + begin + i) * row_size;
        SIMD_NAME(tile_pack)
        (rows, end - begin, weight->dtype, k, packed,
         (size_t)(end - begin) * tile_floats(weight->dtype));
        packed += b->num_steps * (size_t)(end - begin) * tile_floats(weight->dtype);
    }
}

/* The panel that this thread will probably read next: of its task, or of the task that is its turn
 * when all threads have taken one. -1: none. */
static int32_t next_panel(const struct job *job, int32_t panel, int32_t end_panel)
{
    int32_t others = (pool_num_threads(job->pool) - 1) * job->panels_per_task;
    int32_t next = panel + 1 < end_panel ? panel + 1 : panel + 1 + others;

    return next < job->args->weight->num_panels ? next : -1;
}

/* While a panel is at work, the next one, of num_lines, comes nearer: two lines for each step,
 * shared out among the first two tiles. A single row leaves the memory no pause to fill. */
static void fetch_ahead(struct tile_args *args, const char *next, size_t num_lines, int32_t tile,
                        int32_t num_tiles)
{
    size_t first = (size_t)tile * args->num_steps;

    if (first >= num_lines)
        return;
    args->ahead_lines = num_tiles > 1 ? 1 : 2;
    args->ahead = next + first * 64;
}

/* One panel's part. c: the block's sums, with WEIGHT_PANEL columns; next: the panel after it, or
 * -1. */
static void run_panel(const struct job *job, const struct block *b, int32_t panel, int32_t next,
                      float *c)
{
    const struct linear_weight *weight = job->args->weight;
    size_t step_size = weight->panel_size / job->num_steps, offset = b->first_step * step_size;
    const char *part = weight->data + (size_t)panel * weight->panel_size + offset;
    size_t floats = tile_floats(weight->dtype), num_lines = b->num_steps * step_size / 64;

    if (b->widens)
        SIMD_NAME(tile_widen_panel)(part, b->num_steps, b->wide);
    for (int32_t tile = 0; tile < b->num_tiles; tile++) {
        int32_t begin = tile_start(b->num_rows, b->num_tiles, tile);
        int32_t rows = tile_start(b->num_rows, b->num_tiles, tile + 1) - begin;
        struct tile_args args = {
            .a = b->packed + b->num_steps * (size_t)begin * floats,
            .a_step = (size_t)rows * (b->widens ? 1 : floats),
            .panel = b->widens ? (const char *)b->wide : part,
            .num_steps = b->num_steps * (b->widens ? 2 : 1),
            .c = c + (size_t)begin * WEIGHT_PANEL,
            .c_row = WEIGHT_PANEL,
            .add = b->first_step > 0,
        };

        if (next >= 0 && b->num_rows > 1)
            fetch_ahead(&args, weight->data + (size_t)next * weight->panel_size + offset, num_lines,
                        tile, b->num_tiles);
        if (weight->dtype == DTYPE_F32 || b->widens)
            SIMD_NAME(tile_f32)(rows, &args);
        else
            SIMD_NAME(tile_bf16)(rows, &args);
        if (b->is_last)
            finish(job->args, panel, b->first_row + begin, rows, args.c);
    }
}

static void run_task(void *arg, int32_t task, int32_t thread)
{
    const struct job *job = arg;
    const struct linear_weight *weight = job->args->weight;
    int32_t first_panel = task % job->num_panel_tasks * job->panels_per_task;
    int32_t end_panel = first_panel + job->panels_per_task;
    float *c = pool_scratch(job->pool, thread);
    struct block b = {.first_row = task / job->num_panel_tasks * job->rows_per_task,
                      .packed = c + C_SIZE,
                      .wide = c + C_SIZE + PACKED_SIZE + TILE_SLACK};

    b.num_rows = job->args->num_tokens - b.first_row;
    if (b.num_rows > job->rows_per_task)
        b.num_rows = job->rows_per_task;
    if (end_panel > weight->num_panels)
        end_panel = weight->num_panels;
    b.num_tiles = (b.num_rows + TILE_ROWS - 1) / TILE_ROWS;
    b.widens = weight->dtype == DTYPE_BF16 && WIDE_SIZE > 0 && b.num_tiles >= WIDEN_TILES;
    for (; b.first_step < job->num_steps; b.first_step += job->stretch) {
        b.num_steps = job->num_steps - b.first_step;
        b.is_last = b.num_steps <= job->stretch;
        if (!b.is_last)
            b.num_steps = job->stretch;
        pack(job, &b);
        for (int32_t panel = first_panel; panel < end_panel; panel++)
            run_panel(job, &b, panel, next_panel(job, panel, end_panel),
                      c + (size_t)((panel - first_panel) * b.num_rows) * WEIGHT_PANEL);
    }
}

static int32_t clamp(int64_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : (int32_t)value;
}

void SIMD_NAME(linear)(struct stream *stream, const void *args)
{
    const struct linear_args *a = args;
    const struct linear_weight *weight = a->weight;
    struct job job = {.args = a,
                      .pool = cpu_stream_pool(stream),
                      .num_steps = tile_steps(weight->dtype, (size_t)weight->k)};
    int32_t num_threads = pool_num_threads(job.pool);
    size_t floats = tile_floats(weight->dtype);

    if (weight->num_panels == 0)
        return;
    job.rows_per_task = a->num_tokens <= FEW_ROWS ? a->num_tokens : BLOCK_ROWS;
    job.stretch = PACKED_SIZE / ((size_t)job.rows_per_task * floats);
    if (a->num_tokens > FEW_ROWS)
        job.stretch = STRETCH;
    int32_t num_blocks = (a->num_tokens + job.rows_per_task - 1) / job.rows_per_task;
    int64_t num_wanted = ((int64_t)num_threads * TASKS_PER_THREAD + num_blocks - 1) / num_blocks;
    int32_t least = clamp((int64_t)(TASK_BYTES / weight->panel_size), 1, MAX_PANELS);
    job.panels_per_task = clamp(weight->num_panels / num_wanted, least, MAX_PANELS);
    job.num_panel_tasks = (weight->num_panels + job.panels_per_task - 1) / job.panels_per_task;
    pool_run(job.pool, num_blocks * job.num_panel_tasks, run_task, &job);
}
