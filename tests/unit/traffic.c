/* traffic.c - see traffic.h: scripts are made from seeds, shortened and printed. */
#include "tests/unit/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct rng {
    uint64_t seed, count;
};

/* 0..n-1 */
static int32_t draw(struct rng *rng, int32_t n)
{
    return (int32_t)(fake_hash(rng->seed, rng->count++) % (uint64_t)n);
}

static int32_t between(struct rng *rng, int32_t min, int32_t max)
{
    return min >= max ? min : min + draw(rng, max - min + 1);
}

static bool one_in(struct rng *rng, int32_t n)
{
    return draw(rng, n) == 0;
}

static int32_t pick(struct rng *rng, const int32_t *from, int32_t n)
{
    return from[draw(rng, n)];
}

static void make_config(struct rng *rng, struct scheduler_config *out)
{
    static const int32_t page_sizes[] = {1, 1, 2, 2, 4, 16, 16, 256};
    int32_t page_size = pick(rng, page_sizes, 8);
    int32_t num_pages = one_in(rng, 3) ? between(rng, 8, 48) : between(rng, 2, 8);
    int32_t total = page_size * num_pages;
    int32_t max_seq_len = one_in(rng, 2) ? total : between(rng, 2, total);

    *out = (struct scheduler_config){
        .page_size = page_size,
        .num_pages = num_pages,
        .max_running_reqs = one_in(rng, 10) ? between(rng, 8, 40) : between(rng, 1, 8),
        .max_seq_len = max_seq_len < 2     ? 2
                       : max_seq_len > 600 ? 600
                                           : max_seq_len,
        .max_prefill_tokens = between(rng, 1, 64),
        .max_queued = TRAFFIC_MAX_OPS,
        .vocab_size = one_in(rng, 2) ? 20 : 200,
        .cache_type = one_in(rng, 4) ? CACHE_NAIVE : CACHE_RADIX,
        .policy = one_in(rng, 2) ? POLICY_MIXED : POLICY_PREFILL_FIRST,
        .queue_order = one_in(rng, 3) ? ORDER_CACHED : ORDER_ARRIVAL,
    };
}

static struct traffic_op make_submit(struct rng *rng, const struct scheduler_config *config,
                                     uint64_t uid, int32_t num_families)
{
    int32_t page_size = config->page_size;
    int32_t prompt_len = between(rng, 1, config->max_seq_len - 1);

    if (one_in(rng, 2)) /* around a page boundary */
        prompt_len = page_size * between(rng, 1, 4) + between(rng, -1, 1);
    if (one_in(rng, 2))
        prompt_len = between(rng, 1, 12);
    if (one_in(rng, 50))
        prompt_len = config->max_seq_len + between(rng, -2, 1);
    if (prompt_len >= config->max_seq_len && !one_in(rng, 20))
        prompt_len = config->max_seq_len - 1;
    prompt_len = prompt_len < 1 ? 1 : prompt_len;
    return (struct traffic_op){
        .kind = TRAFFIC_SUBMIT,
        .uid = uid > 2 && one_in(rng, 30) ? uid - 1 - (uint64_t)draw(rng, 2) : uid,
        .client = draw(rng, 3),
        .family = draw(rng, num_families),
        .shared_len = one_in(rng, 3) ? prompt_len : between(rng, 0, prompt_len),
        .prompt_len = prompt_len,
        .max_tokens = one_in(rng, 8)   ? between(rng, 1, 1 << 20)
                      : one_in(rng, 3) ? between(rng, 1, 3)
                                       : between(rng, 1, 16),
        .ignore_eos = one_in(rng, 3),
        .nan_at = one_in(rng, 12) ? draw(rng, 4) : TRAFFIC_NEVER,
    };
}

static void add(struct traffic *traffic, struct traffic_op op)
{
    if (traffic->num_ops < TRAFFIC_MAX_OPS)
        traffic->ops[traffic->num_ops++] = op;
}

/* A turn of the loop: normal, overlapped, or in any order that is allowed. */
static void add_turn(struct traffic *traffic, struct rng *rng, int32_t loop)
{
    const struct traffic_op launch = {.kind = TRAFFIC_LAUNCH};
    const struct traffic_op process = {.kind = TRAFFIC_PROCESS};

    if (loop == 2) {
        add(traffic, one_in(rng, 2) ? launch : process);
        return;
    }
    add(traffic, launch);
    if (loop == 0 || traffic->num_ops > 1)
        add(traffic, process);
}

void traffic_make(uint64_t seed, struct traffic *out)
{
    struct rng rng = {.seed = fake_hash(seed, 77)};
    int32_t loop = draw(&rng, 3);
    int32_t submit_rate = between(&rng, 2, 8), abort_rate = between(&rng, 3, 40);
    int32_t num_families = between(&rng, 1, 3), num_ops = between(&rng, 50, 400);
    uint64_t next_uid = 1;

    *out = (struct traffic){.nan_seed = one_in(&rng, 3) ? seed + 1 : 0};
    make_config(&rng, &out->config);
    if (loop == 1) /* the lead of one step */
        add(out, (struct traffic_op){.kind = TRAFFIC_LAUNCH});
    while (out->num_ops < num_ops) {
        while (one_in(&rng, submit_rate))
            for (int32_t i = one_in(&rng, 6) ? between(&rng, 2, 6) : 1; i > 0; i--)
                add(out, make_submit(&rng, &out->config, next_uid++, num_families));
        if (one_in(&rng, abort_rate))
            add(out, (struct traffic_op){.kind = TRAFFIC_ABORT,
                                         .uid = next_uid - (uint64_t)draw(&rng, 8)});
        if (one_in(&rng, abort_rate * 8))
            add(out, (struct traffic_op){.kind = TRAFFIC_ABORT_CLIENT, .client = draw(&rng, 3)});
        if (one_in(&rng, 60))
            add(out, (struct traffic_op){.kind = TRAFFIC_FLUSH});
        add_turn(out, &rng, loop);
    }
}

bool traffic_fails(const struct traffic *traffic)
{
    int wait_status = 0;

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct traffic_result result;
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        alarm(5);
        traffic_run(traffic, &result);
        _exit(result.error[0] != '\0');
    }
    if (child < 0 || waitpid(child, &wait_status, 0) != child)
        return false;
    return wait_status != 0;
}

/* Without ops [start, start + len). */
static struct traffic *without(const struct traffic *traffic, int32_t start, int32_t len)
{
    struct traffic *shorter = malloc(sizeof(*shorter));

    if (!shorter)
        exit(EXIT_FAILURE);
    *shorter = *traffic;
    shorter->num_ops -= len;
    memmove(shorter->ops + start, shorter->ops + start + len,
            (size_t)(traffic->num_ops - start - len) * sizeof(shorter->ops[0]));
    return shorter;
}

void traffic_shorten(struct traffic *traffic)
{
    for (int32_t len = traffic->num_ops; len > 0;) {
        bool dropped = false;
        for (int32_t start = 0; start + len <= traffic->num_ops;) {
            struct traffic *shorter = without(traffic, start, len);
            if (traffic_fails(shorter)) {
                *traffic = *shorter;
                dropped = true;
            } else {
                start += len;
            }
            free(shorter);
        }
        if (!dropped || len > traffic->num_ops)
            len /= 2;
    }
}

void traffic_print(const struct traffic *traffic)
{
    static const char *const names[] = {"submit", "abort",  "abort client",
                                        "flush",  "launch", "process"};
    const struct scheduler_config *config = &traffic->config;

    printf("page_size=%d num_pages=%d rows=%d max_seq_len=%d budget=%d vocab=%d %s %s%s\n",
           config->page_size, config->num_pages, config->max_running_reqs, config->max_seq_len,
           config->max_prefill_tokens, config->vocab_size,
           config->cache_type == CACHE_RADIX ? "radix" : "naive",
           config->policy == POLICY_MIXED ? "mixed" : "prefill-first",
           config->queue_order == ORDER_CACHED ? " cached-first" : "");
    for (int32_t i = 0; i < traffic->num_ops; i++) {
        const struct traffic_op *op = &traffic->ops[i];
        printf("  %s", names[op->kind]);
        if (op->kind == TRAFFIC_SUBMIT)
            printf(" uid=%llu client=%d prompt_len=%d (%d of family %d) max_tokens=%d%s",
                   (unsigned long long)op->uid, op->client, op->prompt_len, op->shared_len,
                   op->family, op->max_tokens, op->ignore_eos ? " ignore_eos" : "");
        if (op->kind == TRAFFIC_SUBMIT && op->nan_at != TRAFFIC_NEVER)
            printf(" nan_at=%d", op->nan_at);
        if (op->kind == TRAFFIC_ABORT)
            printf(" uid=%llu", (unsigned long long)op->uid);
        if (op->kind == TRAFFIC_ABORT_CLIENT)
            printf(" %d", op->client);
        printf("\n");
    }
}
