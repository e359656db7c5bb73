/*
 * workers.c - see workers.h.
 *
 *   push -> [ todo: first ... last ] -> a thread -> [ done ] -> take_done
 *
 * One mutex guards both lists; jobs are worked on outside of it.
 */
#include "tokenizer_proc/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct job_list {
    struct job *first, *last;
};

struct worker {
    pthread_t thread;
    struct workers *workers; /* borrowed */
    struct prompt_maker maker;
};

struct workers {
    pthread_mutex_t mutex;
    pthread_cond_t todo_or_stop;
    pthread_cond_t stopped;
    struct job_list todo, done; /* owned */
    bool must_stop;
    int num_running; /* threads that have not ended */
    int fd;          /* owned: an eventfd */
    int num_threads; /* of those that were started */
    struct worker threads[WORKERS_MAX_THREADS];
};

static void list_append(struct job_list *list, struct job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
}

static struct job *list_pop(struct job_list *list)
{
    struct job *job = list->first;

    if (job) {
        list->first = job->next;
        if (!list->first)
            list->last = NULL;
        job->next = NULL;
    }
    return job;
}

/* The next job, or NULL when it is time to stop. */
static struct job *next_job(struct workers *workers)
{
    struct job *job = NULL;

    pthread_mutex_lock(&workers->mutex);
    while (!workers->must_stop && !workers->todo.first)
        pthread_cond_wait(&workers->todo_or_stop, &workers->mutex);
    if (!workers->must_stop)
        job = list_pop(&workers->todo);
    pthread_mutex_unlock(&workers->mutex);
    return job;
}

static void give_back(struct workers *workers, struct job *job)
{
    uint64_t one = 1;

    pthread_mutex_lock(&workers->mutex);
    list_append(&workers->done, job);
    pthread_mutex_unlock(&workers->mutex);
    if (write(workers->fd, &one, sizeof(one)) < 0)
        return; /* its counter is full: it is readable */
}

static void *work(void *data)
{
    struct worker *worker = data;
    struct workers *workers = worker->workers;
    struct job *job;

    while ((job = next_job(workers))) {
        job_run(job, &worker->maker);
        give_back(workers, job);
    }
    pthread_mutex_lock(&workers->mutex);
    workers->num_running--;
    pthread_cond_signal(&workers->stopped);
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

static struct status start_thread(struct workers *workers, const struct prompt_model *model)
{
    struct worker *worker = &workers->threads[workers->num_threads];
    struct status status = prompt_maker_init(&worker->maker, model);
    int error;

    if (status.code)
        return status;
    worker->workers = workers;
    workers->num_running++;
    error = pthread_create(&worker->thread, NULL, work, worker);
    if (error) {
        workers->num_running--;
        prompt_maker_deinit(&worker->maker);
        return status_errno(error, "a tokenizer thread");
    }
    workers->num_threads++;
    return status_ok();
}

struct status workers_start(int num_threads, const struct prompt_model *model, struct workers **out)
{
    struct workers *workers = calloc(1, sizeof(*workers));
    struct status status = status_ok();
    pthread_condattr_t attr;

    if (!workers)
        return status_error(STATUS_NO_MEMORY, "no memory for threads");
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->todo_or_stop, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&workers->stopped, &attr);
    pthread_condattr_destroy(&attr);
    workers->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (workers->fd < 0)
        status = status_errno(errno, "eventfd");
    for (int i = 0; i < num_threads && status.code == STATUS_OK; i++)
        status = start_thread(workers, model);
    if (status.code) {
        workers_stop(&workers, 1000);
        return status;
    }
    *out = workers;
    return status_ok();
}

static void destroy_list(struct job_list *list)
{
    struct job *job;

    while ((job = list_pop(list)))
        job_destroy(&job);
}

/* Waits until no thread runs; false when the time is up. */
static bool wait_for_end(struct workers *workers, int timeout_ms)
{
    struct timespec deadline;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_nsec -= 1000000000L;
        deadline.tv_sec++;
    }
    pthread_mutex_lock(&workers->mutex);
    workers->must_stop = true;
    pthread_cond_broadcast(&workers->todo_or_stop);
    while (workers->num_running > 0 && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&workers->stopped, &workers->mutex, &deadline);
    bool has_ended = workers->num_running == 0;
    pthread_mutex_unlock(&workers->mutex);
    return has_ended;
}

bool workers_stop(struct workers **workers_ptr, int timeout_ms)
{
    struct workers *workers = *workers_ptr;

    if (!workers)
        return true;
    *workers_ptr = NULL;
    if (!wait_for_end(workers, timeout_ms)) {
        for (int i = 0; i < workers->num_threads; i++)
            pthread_detach(workers->threads[i].thread); /* the end of the process is theirs */
        return false;
    }
    for (int i = 0; i < workers->num_threads; i++) {
        pthread_join(workers->threads[i].thread, NULL);
        prompt_maker_deinit(&workers->threads[i].maker);
    }
    destroy_list(&workers->todo);
    destroy_list(&workers->done);
    if (workers->fd >= 0)
        close(workers->fd);
    pthread_cond_destroy(&workers->stopped);
    pthread_cond_destroy(&workers->todo_or_stop);
    pthread_mutex_destroy(&workers->mutex);
    free(workers);
    return true;
}

void workers_push(struct workers *workers, struct job *job)
{
    pthread_mutex_lock(&workers->mutex);
    list_append(&workers->todo, job);
    pthread_cond_signal(&workers->todo_or_stop);
    pthread_mutex_unlock(&workers->mutex);
}

struct job *workers_take_done(struct workers *workers)
{
    uint64_t count;
    struct job *first;

    if (read(workers->fd, &count, sizeof(count)) < 0)
        return NULL; /* not readable: none is done */
    pthread_mutex_lock(&workers->mutex);
    first = workers->done.first;
    workers->done = (struct job_list){0};
    pthread_mutex_unlock(&workers->mutex);
    return first;
}

int workers_fd(const struct workers *workers)
{
    return workers->fd;
}
