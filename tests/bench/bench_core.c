/*
 * bench_core.c - what the scheduler's core costs by itself: no device, no sockets. Medians.
 *
 *     bench_core [NUM_CACHED_TOKENS]     default: 1,000 up to 4,000,000
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "scheduler_proc/scheduler.h"

enum { PAGE_SIZE = 16, NUM_ROWS = 256, PROMPT_LEN = 4096, VOCAB_SIZE = 100000 };

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median_us(int64_t *times_ns, int32_t n)
{
    qsort(times_ns, (size_t)n, sizeof(*times_ns), compare);
    return (double)times_ns[n / 2] / 1e3;
}

static struct scheduler *create(int32_t num_pages, int32_t num_rows)
{
    const struct scheduler_config config = {
        .page_size = PAGE_SIZE,
        .num_pages = num_pages,
        .max_running_reqs = num_rows,
        .max_seq_len = 8192,
        .max_prefill_tokens = 8192,
        .max_queued = 4096,
        .vocab_size = VOCAB_SIZE,
        .cache_type = CACHE_RADIX,
        .policy = POLICY_PREFILL_FIRST,
    };
    struct scheduler *scheduler = NULL;
    struct status status = scheduler_create(&config, &scheduler);

    if (status.code) {
        fprintf(stderr, "bench_core: %s\n", status.msg);
        exit(EXIT_FAILURE);
    }
    return scheduler;
}

/* Prompts that differ in their first `own` tokens' number, or share them. */
static void submit(struct scheduler *scheduler, uint64_t uid, int32_t family, int32_t shared_len,
                   int32_t prompt_len, int32_t max_tokens)
{
    static int32_t ids[8192];

    for (int32_t i = 0; i < prompt_len; i++)
        ids[i] = (int32_t)(((uint32_t)i * 2654435761U +
                            (i < shared_len ? (uint32_t)family : (uint32_t)uid + 77U) * 40503U) %
                           VOCAB_SIZE);
    const struct request_msg request = {
        .uid = uid,
        .input_ids = ids,
        .num_input_ids = (size_t)prompt_len,
        .sampling = {.top_p = 1.0F, .max_tokens = max_tokens},
    };
    scheduler_submit(scheduler, &request);
}

static void run_until_idle(struct scheduler *scheduler)
{
    static int32_t tokens[4096];

    while (scheduler_has_work(scheduler)) {
        const struct batch *batch = scheduler_next_batch(scheduler);
        if (batch)
            scheduler_finish_step(scheduler, batch, tokens);
        scheduler_clear_outputs(scheduler);
    }
}

/* Fills the cache with prompts of 1024 tokens. */
static uint64_t fill(struct scheduler *scheduler, int64_t num_tokens)
{
    uint64_t uid = 1;

    for (; num_tokens > 0; num_tokens -= 1024, uid++) {
        submit(scheduler, uid, (int32_t)uid, 1024, num_tokens < 1024 ? (int32_t)num_tokens : 1024,
               1);
        run_until_idle(scheduler);
    }
    return uid;
}

/* Form and process of NUM_ROWS decode rows, one step in flight. */
static double bench_decode(struct scheduler *scheduler, uint64_t uid)
{
    enum { STEPS = 3000 };
    static int64_t times_ns[STEPS];
    static int32_t tokens[NUM_ROWS];
    const struct batch *last = NULL;
    int32_t num_steps = 0;

    for (int32_t i = 0; i < NUM_ROWS; i++)
        submit(scheduler, uid + (uint64_t)i, i, 64, 64, 4096);
    while (num_steps < STEPS) {
        int64_t start_ns = clock_now_ns();
        const struct batch *batch = scheduler_next_batch(scheduler);
        if (last)
            scheduler_finish_step(scheduler, last, tokens);
        scheduler_clear_outputs(scheduler);
        if (batch && batch->is_decode && batch->num_rows == NUM_ROWS)
            times_ns[num_steps++] = clock_now_ns() - start_ns;
        last = batch;
    }
    if (last)
        scheduler_finish_step(scheduler, last, tokens);
    scheduler_end_all(scheduler, ERROR_SHUTTING_DOWN);
    run_until_idle(scheduler);
    return median_us(times_ns, STEPS);
}

/*
 * Rows that were launched for requests that have ended since: NUM_ROWS of them in each of two
 * steps. Nothing but inflight-- in the first; in the second the request's row and memory go back,
 * which they would have done at the end otherwise.
 */
static void bench_wasted(void)
{
    enum { ROUNDS = 301 };
    static int64_t discard_ns[ROUNDS], retire_ns[ROUNDS];
    static int32_t tokens[NUM_ROWS];
    struct scheduler *scheduler = create(NUM_ROWS * 64, NUM_ROWS);
    uint64_t uid = 1;

    for (int32_t round = 0; round < ROUNDS; round++) {
        for (int32_t i = 0; i < NUM_ROWS; i++)
            submit(scheduler, uid++, i, 16, 16, 64);
        scheduler_finish_step(scheduler, scheduler_next_batch(scheduler), tokens);
        const struct batch *first = scheduler_next_batch(scheduler);
        const struct batch *second = scheduler_next_batch(scheduler);
        scheduler_end_all(scheduler, ERROR_SHUTTING_DOWN);
        scheduler_clear_outputs(scheduler);
        int64_t start_ns = clock_now_ns();
        scheduler_finish_step(scheduler, first, tokens);
        int64_t middle_ns = clock_now_ns();
        scheduler_finish_step(scheduler, second, tokens);
        retire_ns[round] = clock_now_ns() - middle_ns;
        discard_ns[round] = middle_ns - start_ns;
        scheduler_clear_outputs(scheduler);
    }
    printf("wasted rows: %.1f ns each to discard, %.1f ns with the end of the request\n",
           median_us(discard_ns, ROUNDS) * 1e3 / NUM_ROWS,
           median_us(retire_ns, ROUNDS) * 1e3 / NUM_ROWS);
    scheduler_destroy(&scheduler);
}

/* From queued to formed: a prompt of which 90 % is cached; and its submit. */
static double bench_admission(struct scheduler *scheduler, uint64_t uid, double *out_submit_us)
{
    enum { ROUNDS = 101 };
    static int64_t times_ns[ROUNDS], submit_ns[ROUNDS];
    int32_t tokens[1] = {0};

    submit(scheduler, uid, 9, PROMPT_LEN, PROMPT_LEN, 1);
    run_until_idle(scheduler);
    for (int32_t i = 0; i < ROUNDS; i++) {
        int64_t start_ns = clock_now_ns();
        submit(scheduler, uid + 1 + (uint64_t)i, 9, PROMPT_LEN * 9 / 10, PROMPT_LEN, 16);
        submit_ns[i] = clock_now_ns() - start_ns;
        start_ns = clock_now_ns();
        const struct batch *batch = scheduler_next_batch(scheduler);
        times_ns[i] = clock_now_ns() - start_ns;
        if (!batch || batch->num_prefill_tokens > PROMPT_LEN / 10 + PAGE_SIZE) {
            fprintf(stderr, "bench_core: the prefix was not found\n");
            exit(EXIT_FAILURE);
        }
        scheduler_finish_step(scheduler, batch, tokens);
        run_until_idle(scheduler);
    }
    *out_submit_us = median_us(submit_ns, ROUNDS);
    return median_us(times_ns, ROUNDS);
}

/* Aborts by client and by uid with 20000 queued, one by one. */
static void bench_abort(void)
{
    enum { NUM = 20000 };
    const struct scheduler_config config = {
        .page_size = PAGE_SIZE,
        .num_pages = 4096,
        .max_running_reqs = 1,
        .max_seq_len = 8192,
        .max_prefill_tokens = 8192,
        .max_queued = NUM,
        .vocab_size = VOCAB_SIZE,
    };
    struct scheduler *scheduler = NULL;
    int32_t ids[16] = {0};
    struct status status = scheduler_create(&config, &scheduler);

    if (status.code)
        exit(EXIT_FAILURE);
    for (int32_t i = 0; i < NUM; i++) {
        struct request_msg request = {.uid = (uint64_t)i + 1,
                                      .input_ids = ids,
                                      .num_input_ids = 16,
                                      .sampling = {.top_p = 1.0F, .max_tokens = 1024}};
        memcpy(request.client.bytes, &request.uid, sizeof(request.uid));
        scheduler_submit(scheduler, &request);
    }
    int64_t start_ns = clock_now_ns();
    for (uint64_t uid = NUM; uid > 0; uid--) {
        struct abort_msg abort = {.by_client = uid % 2 == 0, .uid = uid};
        memcpy(abort.client.bytes, &uid, sizeof(uid));
        scheduler_abort(scheduler, &abort);
    }
    printf("abort, 20000 queued: %.0f ns each\n", (double)(clock_now_ns() - start_ns) / NUM);
    scheduler_destroy(&scheduler);
}

/* 512 requests of 16 families with 1024 tokens in common, a pool for about four prefixes. */
static void bench_order(enum queue_order order)
{
    const struct scheduler_config config = {
        .page_size = PAGE_SIZE,
        .num_pages = 5 * 1200 / PAGE_SIZE,
        .max_running_reqs = 4,
        .max_seq_len = 2048,
        .max_prefill_tokens = 2048,
        .max_queued = 4096,
        .vocab_size = VOCAB_SIZE,
        .queue_order = order,
    };
    struct scheduler *scheduler = NULL;
    struct scheduler_stats stats;
    uint32_t random = 1;
    struct status status = scheduler_create(&config, &scheduler);

    if (status.code)
        exit(EXIT_FAILURE);
    for (uint64_t uid = 1; uid <= 512; uid++) {
        random = random * 1664525U + 1013904223U;
        submit(scheduler, uid, (int32_t)(random >> 28), 1024, 1088, 8);
    }
    run_until_idle(scheduler);
    scheduler_get_stats(scheduler, &stats);
    printf("order %-8s %lld prompt tokens computed of %lld, %lld steps\n",
           order == ORDER_CACHED ? "cached:" : "arrival:", (long long)stats.num_prefill_tokens,
           (long long)stats.num_prompt_tokens, (long long)stats.num_steps);
    scheduler_destroy(&scheduler);
}

static int64_t resident_bytes(void)
{
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%lld %lld", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * 4096;
}

/* Prefixes of 4 pages of their own. */
static void bench_memory(int32_t num_prefixes)
{
    int32_t num_pages = num_prefixes * 4 + 1024;
    int64_t before = resident_bytes();
    struct scheduler *scheduler = create(num_pages, 1);

    for (int32_t i = 0; i < num_prefixes; i++) {
        submit(scheduler, (uint64_t)i + 1, 0, 0, 4 * PAGE_SIZE, 1);
        if (i % 1000 == 999)
            run_until_idle(scheduler);
    }
    run_until_idle(scheduler);
    struct scheduler_stats stats;
    scheduler_get_stats(scheduler, &stats);
    printf("memory: %d pages cached, %.1f bytes each (%d of them tokens)\n", stats.cached_pages,
           (double)(resident_bytes() - before) / stats.cached_pages, PAGE_SIZE * 4);
    scheduler_destroy(&scheduler);
}

int main(int argc, char **argv)
{
    static const int64_t sizes[] = {1000, 30000, 1000000, 4000000};

    printf("%12s %24s %26s %10s\n", "tokens", "256 decode rows, a step", "admission, 4096, 90%",
           "submit");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int64_t num_tokens = argc > 1 ? strtoll(argv[1], NULL, 10) : sizes[i];
        double submit_us = 0.0;
        struct scheduler *scheduler =
            create((int32_t)(num_tokens / PAGE_SIZE) + NUM_ROWS * 8192 / PAGE_SIZE, NUM_ROWS);
        uint64_t uid = fill(scheduler, num_tokens);
        double decode_us = bench_decode(scheduler, uid);
        double admit_us = bench_admission(scheduler, uid + 1000, &submit_us);
        printf("%12lld %21.1f us %23.1f us %7.1f us\n", (long long)num_tokens, decode_us, admit_us,
               submit_us);
        scheduler_destroy(&scheduler);
        if (argc > 1)
            break;
    }
    bench_wasted();
    bench_abort();
    bench_order(ORDER_ARRIVAL);
    bench_order(ORDER_CACHED);
    bench_memory(1000000);
    return EXIT_SUCCESS;
}
