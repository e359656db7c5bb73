/*
 * bench_detokenizer_step.c - what a step costs the detokenizer process, but for the sockets: decode
 * the frame of 256 rows, turn each token into text, encode one frame for the one client.
 *
 *   bench_detokenizer_step [--ids]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "detokenizer_proc/detokenizer.h"
#include "proto/messages_codec.h"
#include "tests/unit/hand_vocabulary.h"

enum { NUM_ROWS = 256, NUM_STEPS = 20000, NUM_WORDS = 8 };

static const char *const words[NUM_WORDS] = {" the", " quick", " brown", "\xE4\xB8",
                                             "\x96", " jumps", ".\n",    "\1<eos>"};
static const struct client_id client_id = {.bytes = {1}};

struct bench {
    struct vocabulary vocabulary;
    struct detokenizer detokenizer;
    struct arena arena;
    struct frame_buffer in, out, reply_to;
    size_t num_bytes;
};

static struct status encode_step(struct bench *bench, bool is_first, bool want_ids, int64_t step)
{
    static struct token_row rows[NUM_ROWS];
    const struct bytes stop = {(const uint8_t *)"\n\n", 2};
    const struct reply_to reply_to = {.client = client_id,
                                      .rid = {(const uint8_t *)"request-12345", 13},
                                      .num_stops = 1,
                                      .stops = &stop,
                                      .skip_special = true,
                                      .want_ids = want_ids,
                                      .stream = true};
    struct status status = reply_to_encode(&reply_to, &bench->reply_to);

    for (int i = 0; i < NUM_ROWS && !status.code; i++)
        rows[i] = (struct token_row){.uid = ((uint64_t)1 << 48) + (uint64_t)i + 1,
                                     .token = (int32_t)((step + i) % NUM_WORDS),
                                     .is_first = is_first,
                                     .reply_to = {bench->reply_to.data, bench->reply_to.size}};
    const struct message message = {
        .type = MESSAGE_TOKENS,
        .tokens = {.step_end_ns = step, .num_rows = NUM_ROWS, .rows = rows}};
    return status.code ? status : message_encode(&message, &bench->in);
}

/* What loop.c does with a frame, but for the sockets. */
static struct status do_step(struct bench *bench)
{
    struct message message;
    struct message_fault fault;
    struct client *client;

    arena_reset(&bench->arena);
    struct status status =
        message_decode(bench->in.data, bench->in.size, &bench->arena, &message, &fault);
    if (status.code)
        return status;
    for (int32_t i = 0; i < message.tokens.num_rows; i++) {
        const struct token_row *row = &message.tokens.rows[i];
        struct reply_to reply_to;
        if (row->is_first)
            status =
                reply_to_decode(row->reply_to.data, row->reply_to.size, &bench->arena, &reply_to);
        if (status.code)
            return status;
        detokenizer_take_row(&bench->detokenizer, row, row->is_first ? &reply_to : NULL,
                             message.tokens.step_end_ns);
    }
    while (!status.code && (client = detokenizer_next_ready(&bench->detokenizer))) {
        status = client_next_message(client, &bench->arena, &message);
        if (!status.code)
            status = message_encode(&message, &bench->out);
        bench->num_bytes += bench->out.size;
        detokenizer_message_sent(&bench->detokenizer, client);
    }
    return status;
}

static struct status run(struct bench *bench, bool want_ids)
{
    const struct bytes peer = {client_id.bytes, sizeof(client_id.bytes)};
    struct status status = detokenizer_take_hello(&bench->detokenizer, &peer);
    int64_t total_ns = 0;

    for (int step = 0; step < NUM_STEPS && !status.code; step++) {
        status = encode_step(bench, step == 0, want_ids, step);
        int64_t start_ns = clock_now_ns();
        if (!status.code)
            status = do_step(bench);
        total_ns += clock_now_ns() - start_ns;
    }
    printf("%.1f us a step of %d tokens, %.2f M tokens/s, %zu bytes out a step\n",
           (double)total_ns / NUM_STEPS / 1e3, NUM_ROWS,
           (double)NUM_ROWS * NUM_STEPS / (double)total_ns * 1e3, bench->num_bytes / NUM_STEPS);
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = {.vocabulary = hand_vocabulary(words, NUM_WORDS)};
    struct status status = detokenizer_init(
        &bench.detokenizer, &(struct detokenizer_args){.vocabulary = &bench.vocabulary});

    arena_init(&bench.arena, 1 << 20, 0);
    if (!status.code)
        status = run(&bench, argc > 1 && strcmp(argv[1], "--ids") == 0);
    if (status.code)
        fprintf(stderr, "bench_detokenizer_step: %s\n", status.msg);
    detokenizer_deinit(&bench.detokenizer);
    arena_deinit(&bench.arena);
    frame_buffer_deinit(&bench.in);
    frame_buffer_deinit(&bench.out);
    frame_buffer_deinit(&bench.reply_to);
    vocabulary_deinit(&bench.vocabulary);
    return status.code ? 1 : 0;
}
