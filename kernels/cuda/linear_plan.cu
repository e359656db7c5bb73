/*
 * linear_plan.cu - the ways in which linear_split.cu can cut a layer, and which are worth a try.
 */
#include <math.h>

#include "kernels/cuda/linear_split.cuh"

enum { MAX_TOKENS = 512, MAX_PLANS = 32, MAX_FEATURES = 512, MAX_PARTS = 8 };

/* F: enough of them for nearly as many blocks as multiprocessors, whatever the layer. */
static const int widths[] = {32, 64, 80, 96, 112, 128, 136};

enum { NUM_WIDTHS = sizeof(widths) / sizeof(widths[0]), NUM_WAYS = NUM_WIDTHS * 48 * MAX_PARTS };

/* The i-th of all ways. */
static int number_of(int i)
{
    int j = i / NUM_WIDTHS, width = widths[i % NUM_WIDTHS];
    int groups = 1 + j % 4, ranks = 1 << j / 4 % 4, depth = 1 << j / 16 % 3, parts = 1 + j / 48;

    return width / 8 | groups << 5 | ranks << 8 | depth << 12 | parts << 15;
}

static bool is_width(int width)
{
    for (int i = 0; i < NUM_WIDTHS; i++) {
        if (widths[i] == width)
            return true;
    }
    return false;
}

bool linear_split_plan(const struct device *device, const struct layer_args *a, int number,
                       struct plan *out)
{
    int groups = number >> 5 & 7, depth = number >> 12 & 7, parts = number >> 15;
    int tiles = ceil_div(a->num_tokens, TOKENS), chunks, stage, sums, fold;
    int room = device->max_shared_bytes - STATIC_SHARED - TILE_ALIGNMENT;
    struct plan plan = {(number & 31) * 8, number >> 8 & 15};
    struct split *split = &plan.split;

    if (parts < 1)
        return false;
    split->token_parts = parts;
    split->token_tiles = ceil_div(tiles, parts);
    split->features = plan.width * groups;
    split->depth = depth;
    split->num_chunks = ceil_div(a->weight->k, TILE_K);
    plan.num_groups = groups * split->token_tiles * depth;
    if (!is_width(plan.width) || split->features % 16 || split->features > MAX_FEATURES ||
        ceil_div(tiles, split->token_tiles) != parts || groups < 1 || depth < 1 ||
        plan.num_groups > MAX_GROUPS || plan.ranks < 1 || plan.ranks > 8 ||
        (plan.ranks & (plan.ranks - 1)) || split->num_chunks / plan.ranks < depth)
        return false;
    stage = stage_bytes(split);
    sums = rank_pitch_of(split, plan.ranks) * plan.ranks * (int)sizeof(float);
    fold = (depth - 1) * split->token_tiles * TOKENS * split->features * (int)sizeof(float);
    chunks = ceil_div(split->num_chunks, plan.ranks);
    split->num_stages = chunks < MAX_STAGES ? chunks : (int)MAX_STAGES;
    if (split->num_stages * stage > room)
        split->num_stages = room / stage;
    if (split->num_stages < chunks) /* see num_stages */
        split->num_stages -= split->num_stages % depth;
    plan.shared_bytes = split->num_stages * stage; /* later of sums, when all of it is read */
    plan.shared_bytes = plan.shared_bytes > sums ? plan.shared_bytes : sums;
    plan.shared_bytes = plan.shared_bytes > fold ? plan.shared_bytes : fold;
    if (plan.shared_bytes > room || (split->num_stages < chunks && split->num_stages < 2 * depth))
        return false;
    plan.shared_bytes += TILE_ALIGNMENT;
    *out = plan;
    return true;
}

/*
 * Not over a few tokens of a large layer. Alone they are as fast there as any; but a block fills a
 * multiprocessor's shared memory, so that the next kernel, which starts early, crowds where there
 * is none: a step of the 14B shape took 8.0 to 10.7 ms, without them 7.8 to 8.0.
 */
static bool can(const struct device *device, const struct layer_args *a)
{
    bool is_small = (int64_t)a->weight->n * a->weight->k < LARGE_WEIGHT;

    return device->encode_tiled && device->has_wgmma && a->weight->dtype == DTYPE_BF16 &&
           a->weight->k % 8 == 0 && a->weight->n % 8 == 0 && (size_t)a->x % 16 == 0 &&
           (size_t)a->y % 16 == 0 && a->num_tokens <= MAX_TOKENS &&
           (is_small || a->num_tokens > FEW_TOKENS);
}

bool linear_split_knows(const struct device *device, const struct layer_args *a, int number)
{
    struct plan plan;

    return can(device, a) && linear_split_plan(device, a, number, &plan);
}

/*
 * About how many clocks it takes from x to y, as measured on an H200. x and, since half of it is
 * there by then, half of W come at 50 bytes a clock to a multiprocessor, at 40 a clock where all
 * ask; a tensor core instruction takes a warpgroup 70 clocks, whose sums the next one waits for;
 * sums go to other ranks at 16 bytes a clock, behind two meetings of all of them.
 */
static double plan_cost(const struct device *device, const struct layer_args *a,
                        const struct plan *plan)
{
    const struct split *split = &plan->split;
    double sms = device->num_sms, ranks = plan->ranks;
    int chunks = ceil_div(split->num_chunks, plan->ranks);
    int blocks = ceil_div(a->weight->n, split->features) * split->token_parts * plan->ranks;
    int tokens = ceil_div(a->num_tokens, split->token_parts); /* about what a block has */
    int per_sm = 2 * (plan->shared_bytes + STATIC_SHARED) <= device->max_shared_bytes ? 2 : 1;
    int at_once = device->num_sms / plan->ranks * plan->ranks * per_sm;
    double bytes = 2.0 * chunks * TILE_K * (split->features / 2.0 + tokens);
    double load = fmax(bytes / 50, bytes * fmin(blocks, at_once) / (40 * sms));
    double steps = chunks * (TILE_K / 16.0) / split->depth;
    double math =
        steps * fmax(plan->width > 64 ? 80 : 70, plan->num_groups * (plan->width / 2.0 + 8));
    double cost = fmax(load, math) + 600 * split->depth;

    if (plan->ranks > 1)
        cost += 2100 + 200 * ranks + 4.0 * tokens * split->features * (ranks - 1) / ranks / 16;
    return ceil_div(blocks, at_once) * cost;
}

int linear_split_plans(const struct device *device, const struct layer_args *a, int *out, int max)
{
    double costs[MAX_PLANS];
    int num = 0;

    if (!can(device, a))
        return 0;
    max = max < MAX_PLANS ? max : (int)MAX_PLANS;
    for (int i = 0; i < NUM_WAYS; i++) {
        int number = number_of(i);
        struct plan plan;
        double cost;
        int at = num;

        if (!linear_split_plan(device, a, number, &plan))
            continue;
        cost = plan_cost(device, a, &plan);
        while (at > 0 && costs[at - 1] > cost)
            at--;
        if (at >= max)
            continue;
        num = num < max ? num + 1 : max;
        for (int j = num - 1; j > at; j--) {
            costs[j] = costs[j - 1];
            out[j] = out[j - 1];
        }
        costs[at] = cost;
        out[at] = number;
    }
    return num;
}
