/*
 * pool.c - see pool.h.
 *
 * A run is published in one word, so that joining it is one compare-and-swap:
 *
 *     state = generation << 32 | OPEN | number of workers inside
 *
 * The caller writes the job, opens a new generation, takes tasks itself until none is left, closes
 * it, and waits until nobody is inside. A worker enters an open generation once, takes tasks, and
 * leaves. The job's fields and next_task are touched only by the caller and by those inside.
 *
 * Nobody misses a wake-up: a sleeper announces itself (num_sleeping, caller_sleeps) before it looks
 * at state for the last time, and whoever changes state looks at the announcement afterwards, both
 * in sequentially consistent order.
 */
#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/clock.h"

#define STATE_OPEN   ((uint64_t)1 << 31)
#define STATE_INSIDE (STATE_OPEN - 1)

enum { SPIN_NS = 60000, SPINS_PER_LOOK = 64 };
enum { SPLIT_SIZE = 32 << 10 }; /* bytes: a few microseconds of work */

struct worker {
    struct pool *pool; /* borrowed */
    pthread_t thread;
    int32_t index; /* 1 .. num_threads - 1; 0 is the caller */
};

struct pool {
    int32_t num_threads;
    int32_t num_started;
    struct worker *workers; /* owned: [num_threads - 1] */
    char *scratch;          /* owned: [num_threads][POOL_SCRATCH_SIZE] */
    pthread_mutex_t turn;   /* held by the caller for the whole run */

    pool_task task;
    void *arg;
    int32_t num_tasks;

    _Alignas(64) atomic_int_least32_t next_task;
    _Alignas(64) atomic_uint_least64_t state;

    _Alignas(64) pthread_mutex_t lock; /* of the two conditions */
    pthread_cond_t opened, left;
    atomic_int_least32_t num_sleeping;
    atomic_bool caller_sleeps, stop;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_tasks(struct pool *pool, int32_t thread)
{
    for (;;) {
        int32_t task = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
        if (task >= pool->num_tasks)
            return;
        pool->task(pool->arg, task, thread);
    }
}

/* Whether state holds a run that this worker has not been inside yet. */
static bool is_news(uint64_t state, uint32_t last_generation)
{
    return (state & STATE_OPEN) && (uint32_t)(state >> 32) != last_generation;
}

/* Spins, then sleeps, until there is news or the pool stops. */
static void wait_for_news(struct pool *pool, uint32_t last_generation)
{
    int64_t deadline = 0;

    for (int spins = 0;; spins++) {
        if (is_news(atomic_load_explicit(&pool->state, memory_order_acquire), last_generation) ||
            atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return;
        relax();
        if (spins % SPINS_PER_LOOK == 0) {
            int64_t now = clock_now_ns();
            if (deadline == 0)
                deadline = now + SPIN_NS;
            else if (now > deadline)
                break;
        }
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->num_sleeping, 1);
    while (!is_news(atomic_load(&pool->state), last_generation) && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->opened, &pool->lock);
    atomic_fetch_sub(&pool->num_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    uint32_t last_generation = 0;

    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        uint64_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
        if (!is_news(state, last_generation)) {
            wait_for_news(pool, last_generation);
            continue;
        }
        if (!atomic_compare_exchange_weak(&pool->state, &state, state + 1))
            continue;
        last_generation = (uint32_t)(state >> 32);
        run_tasks(pool, worker->index);
        if ((atomic_fetch_sub(&pool->state, 1) & STATE_INSIDE) == 1 &&
            atomic_load(&pool->caller_sleeps)) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->left);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

static bool is_empty(struct pool *pool)
{
    return (atomic_load(&pool->state) & STATE_INSIDE) == 0;
}

static void wait_until_empty(struct pool *pool)
{
    int64_t deadline = 0;

    for (int spins = 1; !is_empty(pool); spins++) {
        relax();
        if (spins % SPINS_PER_LOOK != 0)
            continue;
        int64_t now = clock_now_ns();
        if (deadline == 0)
            deadline = now + SPIN_NS;
        if (now <= deadline)
            continue;
        pthread_mutex_lock(&pool->lock);
        atomic_store(&pool->caller_sleeps, true);
        while (!is_empty(pool))
            pthread_cond_wait(&pool->left, &pool->lock);
        atomic_store(&pool->caller_sleeps, false);
        pthread_mutex_unlock(&pool->lock);
    }
}

void pool_run(struct pool *pool, int32_t num_tasks, pool_task task, void *arg)
{
    pthread_mutex_lock(&pool->turn);
    if (num_tasks <= 1 || pool->num_threads == 1) {
        for (int32_t i = 0; i < num_tasks; i++)
            task(arg, i, 0);
        pthread_mutex_unlock(&pool->turn);
        return;
    }
    pool->task = task;
    pool->arg = arg;
    pool->num_tasks = num_tasks;
    atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&pool->state, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->state, generation << 32 | STATE_OPEN);
    if (atomic_load(&pool->num_sleeping) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->opened);
        pthread_mutex_unlock(&pool->lock);
    }
    run_tasks(pool, 0);
    atomic_fetch_and(&pool->state, ~STATE_OPEN);
    wait_until_empty(pool);
    pthread_mutex_unlock(&pool->turn);
}

struct split {
    pool_range range;
    const void *args;
    int32_t num, per_task;
};

static void run_piece(void *arg, int32_t task, int32_t thread)
{
    const struct split *split = arg;
    int32_t first = task * split->per_task, rest = split->num - first;

    (void)thread;
    split->range(split->args, first, first + (rest < split->per_task ? rest : split->per_task));
}

void pool_split(struct pool *pool, int32_t num, size_t item_size, pool_range range,
                const void *args)
{
    size_t num_tasks = (size_t)num * item_size / SPLIT_SIZE;
    size_t most = (size_t)pool->num_threads * 4;

    if (num_tasks > most)
        num_tasks = most;
    if (num_tasks <= 1 || pool->num_threads == 1) {
        range(args, 0, num);
        return;
    }
    struct split split = {.range = range, .args = args, .num = num};
    split.per_task = (num + (int32_t)num_tasks - 1) / (int32_t)num_tasks;
    pool_run(pool, (num + split.per_task - 1) / split.per_task, run_piece, &split);
}

struct status pool_create(int32_t num_threads, struct pool **out)
{
    struct status status = status_ok();
    struct pool *pool = aligned_alloc(64, (sizeof(*pool) + 63) / 64 * 64);

    if (!pool)
        return status_error(STATUS_NO_MEMORY, "thread pool: no memory");
    *pool = (struct pool){.num_threads = num_threads};
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->opened, NULL);
    pthread_cond_init(&pool->left, NULL);
    pool->workers = calloc((size_t)num_threads, sizeof(*pool->workers));
    pool->scratch = aligned_alloc(64, (size_t)num_threads * POOL_SCRATCH_SIZE);
    if (!pool->workers || !pool->scratch) {
        status = status_error(STATUS_NO_MEMORY, "thread pool: no memory for %d threads",
                              (int)num_threads);
        goto out;
    }
    for (int32_t i = 1; i < num_threads; i++) {
        struct worker *worker = &pool->workers[i - 1];
        *worker = (struct worker){.pool = pool, .index = i};
        int error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error) {
            status = status_errno(error, "thread pool: pthread_create");
            goto out;
        }
        pool->num_started++;
    }
    *out = pool;
    pool = NULL;
out:
    pool_destroy(&pool);
    return status;
}

void pool_destroy(struct pool **address)
{
    struct pool *pool = *address;

    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->opened);
    pthread_mutex_unlock(&pool->lock);
    for (int32_t i = 0; i < pool->num_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->opened);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->turn);
    free(pool->scratch);
    free(pool->workers);
    free(pool);
    *address = NULL;
}

int32_t pool_num_threads(const struct pool *pool)
{
    return pool->num_threads;
}

void *pool_scratch(struct pool *pool, int32_t thread)
{
    return pool->scratch + (size_t)thread * POOL_SCRATCH_SIZE;
}
