/*
 * overlap_lesson.c - what launching a step before the one before it is processed changes, on the
 * real core of the scheduler with one request: the order of events in three loops, and what a user
 * would be told under two ways of seeing the end. Prints text; OVERLAP.md of scheduler_proc goes
 * through it.
 *
 * The other way, mini-sglang's, is three lines in reference_says(): it is asked at the moments at
 * which mini-sglang judges, of the lengths that the request has at those moments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler_proc/req.h"
#include "scheduler_proc/scheduler.h"

enum { UID = 1, EOS = 7, PROMPT_LEN = 5, NEVER = 1 << 20, MAX_RESULTS = 16 };

enum order { NORMAL, OVERLAP, PROCESS_FIRST };

struct said {
    int32_t token;
    bool finished;
};

struct lesson {
    struct scheduler *scheduler; /* owned */
    int32_t eos_at;              /* number of the token that is EOS */
    char events[256];
    struct said reference[MAX_RESULTS], ours[MAX_RESULTS];
    int32_t num_reference, num_ours;
};

static void begin(struct lesson *lesson, int32_t max_tokens, int32_t eos_at)
{
    const int32_t eos = EOS, ids[PROMPT_LEN] = {20, 21, 22, 23, 24};
    const struct scheduler_config config = {
        .page_size = 4,
        .num_pages = 16,
        .max_running_reqs = 2,
        .max_seq_len = 64,
        .max_prefill_tokens = 16,
        .max_queued = 4,
        .vocab_size = 1000,
        .eos_ids = &eos,
        .num_eos_ids = 1,
    };
    struct status status;

    *lesson = (struct lesson){.eos_at = eos_at};
    status = scheduler_create(&config, &lesson->scheduler);
    if (status.code) {
        fprintf(stderr, "overlap_lesson: %s\n", status.msg);
        exit(EXIT_FAILURE);
    }
    scheduler_submit(lesson->scheduler,
                     &(struct request_msg){.uid = UID,
                                           .input_ids = ids,
                                           .num_input_ids = PROMPT_LEN,
                                           .sampling = {.top_p = 1, .max_tokens = max_tokens}});
}

static void note_event(struct lesson *lesson, const char *what, const struct batch *batch)
{
    size_t used = strlen(lesson->events);

    snprintf(lesson->events + used, sizeof(lesson->events) - used, " %s%lld", what,
             (long long)batch->step + 1);
}

/* Forms a step, which stands for its launch; NULL when there is none. */
static const struct batch *launch(struct lesson *lesson)
{
    const struct batch *batch = scheduler_next_batch(lesson->scheduler);

    if (batch)
        note_event(lesson, "launch", batch);
    return batch;
}

static void reference_says(struct lesson *lesson, const struct req *req, int32_t token)
{
    bool finished = req->device_len == req->max_device_len || token == EOS;

    lesson->reference[lesson->num_reference++] = (struct said){token, finished};
}

static void process(struct lesson *lesson, const struct batch *batch)
{
    const struct batch_row *row = &batch->rows[0];
    int32_t number = row->start + row->extend_len - PROMPT_LEN;
    int32_t token = number == lesson->eos_at ? EOS : 101 + number, num_rows;

    note_event(lesson, "process", batch);
    reference_says(lesson, row->req, token);
    scheduler_finish_step(lesson->scheduler, batch, &token);
    const struct token_row *rows = scheduler_outputs(lesson->scheduler, &num_rows);
    for (int32_t i = 0; i < num_rows; i++)
        lesson->ours[lesson->num_ours++] =
            (struct said){rows[i].token, rows[i].finish != FINISH_NONE};
    scheduler_clear_outputs(lesson->scheduler);
}

static void run(struct lesson *lesson, enum order order)
{
    const struct batch *previous = NULL, *batch = NULL;

    do {
        switch (order) {
        case NORMAL: /* launch k, process k */
            batch = launch(lesson);
            if (batch)
                process(lesson, batch);
            break;
        case OVERLAP: /* launch k, process k - 1 while k runs */
            batch = launch(lesson);
            if (previous)
                process(lesson, previous);
            break;
        case PROCESS_FIRST: /* process k - 1, launch k */
            if (previous)
                process(lesson, previous);
            batch = launch(lesson);
            break;
        }
        previous = batch;
    } while (batch);
}

static void print_events(const char *title, enum order order)
{
    struct lesson lesson;

    begin(&lesson, 3, NEVER);
    run(&lesson, order);
    printf("  %-23s%s\n", title, lesson.events);
    scheduler_destroy(&lesson.scheduler);
}

static void print_said(const char *title, const struct said *said, int32_t num_said)
{
    printf("    %-16s", title);
    for (int32_t i = 0; i < num_said; i++) {
        char name[16] = "EOS";
        if (said[i].token != EOS)
            snprintf(name, sizeof(name), "t%d", said[i].token - 100);
        printf(" (%s, %s)", name, said[i].finished ? "finished" : "-");
    }
    printf("\n");
}

static void print_end(const char *title, enum order order, int32_t max_tokens, int32_t eos_at)
{
    struct lesson lesson;
    struct scheduler_stats stats;

    begin(&lesson, max_tokens, eos_at);
    run(&lesson, order);
    scheduler_get_stats(lesson.scheduler, &stats);
    printf("  %s: wasted rows %lld\n", title, (long long)stats.num_wasted_rows);
    print_said("mini-sglang's", lesson.reference, lesson.num_reference);
    print_said("ours", lesson.ours, lesson.num_ours);
    scheduler_destroy(&lesson.scheduler);
}

int main(void)
{
    printf("Order of events, one request of three tokens\n");
    print_events("normal", NORMAL);
    print_events("overlap", OVERLAP);
    print_events("process before launch", PROCESS_FIRST);
    printf("\nmax_tokens 3: what the user is told, (token, finished)\n");
    print_end("normal", NORMAL, 3, NEVER);
    print_end("overlap", OVERLAP, 3, NEVER);
    printf("\nEOS as the third of eight tokens\n");
    print_end("normal", NORMAL, 8, 2);
    print_end("overlap", OVERLAP, 8, 2);
    return EXIT_SUCCESS;
}
