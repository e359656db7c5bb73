/*
 * linear_plan.cu - the ways in which linear_split.cu can cut a layer, and which are worth a try.
 */
#include <math.h>

#include "kernels/cuda/linear_split.cuh"

enum {
    MAX_TOKENS = 512,
    MAX_RANKS = 8,      /* blocks of a cluster, on every card that has them */
    MAX_FEATURES = 512, /* of a block: a tile of W is half of them, and has 256 rows at most */
    MAX_PLANS = 32,
};

/* F: enough of them for nearly as many blocks as multiprocessors, whatever the layer. */
static const int widths[] = {32, 64, 80, 96, 112, 128, 136};

enum { NUM_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

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
    int groups = number >> 5 & 7, depth = number >> 12 & 7, spans = number >> 15;
    int tiles = ceil_div(a->num_tokens, TOKENS), chunks, stage, sums, fold;
    int room = device->max_shared_bytes - STATIC_SHARED - TILE_ALIGNMENT;
    struct plan plan = {(number & 31) * 8, number >> 8 & 15};
    struct split *split = &plan.split;

    if (spans < 1 || spans > tiles)
        return false;
    split->token_spans = spans;
    split->token_tiles = ceil_div(tiles, spans);
    split->features = plan.width * groups;
    split->depth = depth;
    split->num_chunks = ceil_div(a->weight->k, TILE_K);
    plan.num_groups = groups * split->token_tiles * depth;
    if (!is_width(plan.width) || split->features % 16 || split->features > MAX_FEATURES ||
        ceil_div(tiles, split->token_tiles) != spans || groups < 1 || depth < 1 ||
        plan.num_groups > MAX_GROUPS || plan.ranks < 1 || plan.ranks > MAX_RANKS ||
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
 * About how many clocks it takes from x to y: fitted to what plans took on an H200, over 64 and 128
 * tokens of the layers of Qwen3-0.6B and 14B. Of some 200 plans for a layer, the fastest is among
 * the first four. W fills half of the ring before x is there. What is left of it comes at 15 bytes
 * a clock for each multiprocessor of the card, x and W together at 40, to any one at 64. A tensor
 * core instruction takes a warpgroup 115 clocks, whose sums the next one waits for, and the tensor
 * cores half a clock for each feature and 8 more, of all warpgroups one after another; loads and
 * products overlap in part. Each turn costs 400: a start, and the sums that are added up. With
 * ranks, 1900 and 400 for each go into two meetings of all, between which sums come from the others
 * at 16 bytes a clock.
 */
static double plan_cost(const struct device *device, const struct layer_args *a,
                        const struct plan *plan)
{
    const struct split *split = &plan->split;
    double sms = device->num_sms, ranks = plan->ranks;
    int chunks = ceil_div(split->num_chunks, plan->ranks);
    int blocks = ceil_div(a->weight->n, split->features) * split->token_spans * plan->ranks;
    int tokens = min(a->num_tokens, split->token_tiles * TOKENS); /* of a block */
    bool is_small = 2 * (plan->shared_bytes + STATIC_SHARED) <= device->max_shared_bytes;
    int per_sm = is_small && plan->num_groups <= 2 ? 2 : 1; /* two of more lack registers */
    /* A cluster stays within one of the card's groups of 16 or 18 multiprocessors. */
    bool in_groups = plan->ranks > 2 && device->num_sms >= 16;
    int room = per_sm * (in_groups ? device->num_sms / 16 * 16 : device->num_sms);
    int at_once = min(blocks, room), on_one = ceil_div(at_once, device->num_sms);
    double weight = (chunks - split->num_stages / 2.0) * TILE_ROW_BYTES * split->features;
    double both = weight + (double)chunks * TILE_ROW_BYTES * tokens;
    double load =
        fmax(weight * at_once / (15 * sms), fmax(both * at_once / (40 * sms), both * on_one / 64));
    double steps = chunks * (TILE_K / 16.0) / split->depth;
    double math = steps * fmax(115, plan->num_groups * on_one * (plan->width / 2.0 + 8));
    double cost = hypot(load, math) + 400 * split->depth;

    if (plan->ranks > 1)
        cost += 1900 + 400 * ranks + 4.0 * tokens * split->features * (ranks - 1) / ranks / 16;
    return ceil_div(blocks, room) * cost;
}

/* The likeliest so far, in order. */
struct plans {
    double costs[MAX_PLANS];
    int *numbers;
    int num, max;
};

static void consider(const struct device *device, const struct layer_args *a, int number,
                     struct plans *plans)
{
    int at = plans->num;
    struct plan plan;
    double cost;

    if (!linear_split_plan(device, a, number, &plan))
        return;
    cost = plan_cost(device, a, &plan);
    while (at > 0 && plans->costs[at - 1] > cost)
        at--;
    if (at >= plans->max)
        return;
    plans->num = min(plans->num + 1, plans->max);
    for (int i = plans->num - 1; i > at; i--) {
        plans->costs[i] = plans->costs[i - 1];
        plans->numbers[i] = plans->numbers[i - 1];
    }
    plans->costs[at] = cost;
    plans->numbers[at] = number;
}

int linear_split_plans(const struct device *device, const struct layer_args *a, int *out, int max)
{
    struct plans plans = {{}, out, 0, min(max, (int)MAX_PLANS)};
    int num_spans = ceil_div(a->num_tokens, TOKENS);

    if (!can(device, a))
        return 0;
    for (int i = 0; i < NUM_WIDTHS; i++)
        for (int groups = 1; groups <= MAX_GROUPS; groups++)
            for (int ranks = 1; ranks <= MAX_RANKS; ranks *= 2)
                for (int depth = 1; depth <= MAX_GROUPS; depth *= 2)
                    for (int spans = 1; spans <= num_spans; spans++)
                        consider(device, a, split_number(widths[i], groups, ranks, depth, spans),
                                 &plans);
    return plans.num;
}
