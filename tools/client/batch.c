/*
 * batch.c - minisgl batch: a file of requests, many in flight together; one line out for each line
 * in, in that order.
 *
 * No more are in flight than a server's queue holds by default: that keeps any server busy, and
 * refusals by the ten thousand would pile up until the server takes the client for gone. A request
 * that is turned down as overloaded all the same is not answered by that: it is sent again. So that
 * not all are, again and again, no more are then in flight than the server took, and one more for
 * each that it answers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/progress.h"
#include "tools/client/answer.h"
#include "tools/client/batch_line.h"
#include "tools/client/commands.h"
#include "tools/client/input.h"

static const size_t max_input_bytes = (size_t)4 << 30;

enum { RETRY_MS = 100, MIN_OPEN = 16, MAX_OPEN = 4096, MAX_BURST = 256 };

struct item {
    const char *line;    /* in the input */
    size_t size, number; /* number: which line of the input it is, from 1 on */
    struct answer answer;
    bool is_done;
};

struct batch {
    struct client *client; /* owned */
    char *input;           /* owned: the whole file */
    struct item *items;    /* owned */
    size_t num_items, next_to_send, next_to_write, num_done;
    size_t *again; /* owned, [num_items]: a ring of those turned down as overloaded */
    size_t first_again, num_again;
    size_t max_open;  /* how many the server seems to take at a time */
    int64_t again_ns; /* when more are sent */
    FILE *out;        /* owned unless stdout */
    bool is_shared;   /* it is a terminal, as that of the progress bar may be */
    bool is_stuck;    /* more are to be sent, but not now */
    size_t num_errors;
    struct progress progress;
    struct arena arena;
    struct json_writer writer;
};

static const struct option_usage usage = {
    "minisgl batch", "IN.jsonl -o OUT.jsonl [options]",
    "Answers each line of IN (\"-\": stdin) with a line of OUT (stdout), in the same order:\n"
    "  in   {\"id\", \"prompt\" | \"messages\" | \"input_ids\", \"max_tokens\", \"temperature\", "
    "\"top_k\",\n"
    "        \"top_p\", \"min_p\", \"seed\", \"stop\", \"ignore_eos\"}\n"
    "  out  {\"id\", \"text\", \"output_ids\", \"finish_reason\", \"usage\"} or {\"id\", "
    "\"error\"}\n"
    "A blank line of IN gets no line of OUT; a line that cannot be read gets an error that says\n"
    "which line of IN it is.\n"
    "Exit code 0: all are answered; 1: some ended with an error, or not all of IN was answered;\n"
    "2: wrong usage."};

/* ---- input and output ---- */

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static struct status read_items(struct batch *batch, const char *path)
{
    size_t size = 0, capacity = 0;
    struct status status = input_read(path, max_input_bytes, &batch->input, &size);

    if (status.code)
        return status;
    size_t number = 0;
    for (char *line = batch->input, *end = batch->input + size; line < end;) {
        char *line_end = memchr(line, '\n', (size_t)(end - line));
        size_t line_size = (size_t)((line_end ? line_end : end) - line);
        if (batch->num_items == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            struct item *items = realloc(batch->items, capacity * sizeof(*items));
            if (!items)
                return status_error(STATUS_NO_MEMORY, "no memory for the lines of %.80s", path);
            batch->items = items;
        }
        number++;
        if (!is_blank(line, line_size))
            batch->items[batch->num_items++] =
                (struct item){.line = line, .size = line_size, .number = number};
        line += line_size + 1;
    }
    batch->again = malloc((batch->num_items + 1) * sizeof(*batch->again));
    return batch->again ? status_ok() : status_error(STATUS_NO_MEMORY, "no memory for the batch");
}

/* Writes all that is done and has nothing undone before it. */
static struct status write_done(struct batch *batch)
{
    if (batch->is_shared && batch->next_to_write < batch->num_items &&
        batch->items[batch->next_to_write].is_done)
        progress_hide(&batch->progress);
    while (batch->next_to_write < batch->num_items && batch->items[batch->next_to_write].is_done) {
        struct item *item = &batch->items[batch->next_to_write++];
        const struct json_value *id = NULL;
        struct json_value *value = NULL;
        arena_reset(&batch->arena);
        if (!json_parse(item->line, item->size, &batch->arena, &value).code)
            id = json_get(value, "id");
        json_writer_reset(&batch->writer);
        answer_write(&item->answer, id, false, &batch->writer);
        batch->num_errors += item->answer.error != ERROR_NONE;
        answer_deinit(&item->answer);
        if (batch->writer.failed)
            return status_error(STATUS_NO_MEMORY, "no memory for a line");
        fwrite(batch->writer.data, 1, batch->writer.size, batch->out);
        if (fputc('\n', batch->out) == EOF)
            return status_errno(errno, "writing the answers");
    }
    progress_update(&batch->progress, batch->num_done); /* it may have been hidden */
    return status_ok();
}

/* ---- requests ---- */

static void item_done(struct batch *batch, struct item *item)
{
    item->is_done = true;
    batch->num_done++;
    progress_update(&batch->progress, batch->num_done);
}

/* An error of the line itself, which JSON's reader, who saw no other, calls line 1. */
static void fail_item(struct batch *batch, struct item *item, const struct status *status)
{
    static const char first_line[] = "line 1, ";
    char message[sizeof(status->msg) + 32];
    const size_t skipped = sizeof(first_line) - 1;
    bool is_syntax = strncmp(status->msg, first_line, skipped) == 0;

    snprintf(message, sizeof(message), "line %zu%s%s", item->number, is_syntax ? ", " : ": ",
             status->msg + (is_syntax ? skipped : 0));
    answer_fail(&item->answer,
                status->code == STATUS_NO_MEMORY ? ERROR_INTERNAL : ERROR_INVALID_REQUEST, message);
    item_done(batch, item);
}

/* Sends an item, or ends it with an error of its own; false when the queue is full. */
static bool send_item(struct batch *batch, struct item *item)
{
    const struct json_value *id;
    struct generate_msg msg;
    uint64_t call;

    arena_reset(&batch->arena);
    struct status status = batch_line_parse(item->line, item->size, &batch->arena, &id, &msg);
    if (!status.code)
        status = client_generate(batch->client, &msg, item, &call);
    if (status.code == STATUS_NO_SPACE)
        return false;
    if (status.code)
        fail_item(batch, item, &status);
    return true;
}

/* The next item to be sent, or NULL. */
static struct item *next_item(const struct batch *batch)
{
    if (batch->num_again)
        return &batch->items[batch->again[batch->first_again]];
    return batch->next_to_send < batch->num_items ? &batch->items[batch->next_to_send] : NULL;
}

/* No more than a burst: the server gives up on a client that does not read meanwhile. */
static void send_items(struct batch *batch)
{
    struct item *item;

    batch->is_stuck = false;
    for (int i = 0; i < MAX_BURST && (item = next_item(batch)); i++) {
        bool is_held =
            client_num_open(batch->client) >= batch->max_open || clock_now_ns() < batch->again_ns;
        batch->is_stuck = is_held || !send_item(batch, item);
        if (batch->is_stuck)
            return;
        if (batch->num_again) {
            batch->first_again = (batch->first_again + 1) % batch->num_items;
            batch->num_again--;
        } else {
            batch->next_to_send++;
        }
    }
}

static void send_again_later(struct batch *batch, struct item *item)
{
    size_t num_open = client_num_open(batch->client);

    batch->max_open = num_open > MIN_OPEN ? num_open : MIN_OPEN;
    batch->again_ns = clock_now_ns() + (int64_t)RETRY_MS * 1000000;
    batch->again[(batch->first_again + batch->num_again++) % batch->num_items] =
        (size_t)(item - batch->items);
    answer_deinit(&item->answer);
}

static void take_event(struct batch *batch, const struct client_event *event)
{
    struct item *item = event->user;

    if (event->kind == CLIENT_ERROR && event->error == ERROR_OVERLOADED) {
        send_again_later(batch, item);
        return;
    }
    answer_add(&item->answer, event);
    if (!event->is_last)
        return;
    if (!item->answer.error && item->answer.finish == FINISH_ABORT)
        answer_fail(&item->answer, ERROR_ABORTED, "the request was aborted");
    if (batch->max_open < MAX_OPEN)
        batch->max_open++;
    item_done(batch, item);
}

static struct status run(struct batch *batch)
{
    struct client_event event;
    struct status status = status_ok();

    progress_begin(&batch->progress, "batch", "requests", batch->num_items);
    while (batch->num_done < batch->num_items && !status.code) {
        send_items(batch);
        int timeout_ms = batch->is_stuck ? RETRY_MS / 2 : next_item(batch) ? 0 : -1;
        for (; client_next(batch->client, timeout_ms, &event); timeout_ms = 0)
            take_event(batch, &event);
        if (command_interrupted() && batch->num_done < batch->num_items)
            status = status_error(STATUS_INTERRUPTED, "interrupted after %zu of %zu requests",
                                  batch->num_done, batch->num_items);
        if (!status.code)
            status = write_done(batch);
    }
    if (!status.code)
        status = write_done(batch);
    progress_end(&batch->progress, !status.code);
    return status;
}

/* ---- the command ---- */

static struct status answer_file(struct batch *batch, const struct server_choice *choice,
                                 const char *in, const char *out)
{
    struct status status = read_items(batch, in);

    if (status.code)
        return status;
    status = command_connect(choice, NULL, &batch->client);
    if (status.code)
        return status;
    batch->out = out && strcmp(out, "-") != 0 ? fopen(out, "w") : stdout;
    if (!batch->out)
        return status_errno(errno, out);
    batch->is_shared = isatty(fileno(batch->out));
    status = run(batch);
    if (fflush(batch->out) != 0 && !status.code)
        status = status_errno(errno, "writing the answers");
    return status;
}

int command_batch(int argc, char **argv)
{
    struct server_choice choice = {0};
    struct option_list rest = {0};
    const char *out = NULL;
    const struct option_spec specs[] = {
        option_also("o", option_string("output", &out, "FILE", "where the answers go (stdout)")),
        SERVER_OPTION_SPECS(&choice),
        {0},
    };
    struct batch batch = {.max_open = MAX_OPEN};
    int exit_code;

    arena_init(&batch.arena, 0, 0);
    if (command_parse(argc, argv, &usage, specs, &choice, &rest, &exit_code))
        goto out;
    if (rest.num_items != 1) {
        fprintf(stderr, "minisgl batch: give one file of requests (try --help)\n");
        exit_code = EXIT_USAGE;
        goto out;
    }
    struct status status = answer_file(&batch, &choice, rest.items[0], out);
    exit_code = status.code ? command_fail(status) : batch.num_errors ? EXIT_FAILED : EXIT_OK;
    if (batch.num_errors)
        fprintf(stderr, "minisgl: %zu of %zu requests ended with an error\n", batch.num_errors,
                batch.num_items);
out:
    if (batch.out && batch.out != stdout)
        fclose(batch.out);
    for (size_t i = 0; i < batch.num_items; i++)
        answer_deinit(&batch.items[i].answer);
    client_close(&batch.client);
    free(batch.items);
    free(batch.again);
    free(batch.input);
    json_writer_deinit(&batch.writer);
    arena_deinit(&batch.arena);
    option_list_deinit(&rest);
    return exit_code;
}
