/* test_messages_codec.c - every message there and back, cut and bent. */
#include "proto/messages_codec.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tests/unit/check_main.h"
#include "tests/unit/codec_rig.h"
#include "tests/unit/messages_samples.h"

static struct frame_buffer frame;

static void encode(const struct message *message)
{
    struct status status = message_encode(message, &frame);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
}

static bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static const struct message *sample(enum message_type type)
{
    for (size_t i = 0; i < NUM_SAMPLE_MESSAGES; i++) {
        if (sample_messages[i].type == type)
            return &sample_messages[i];
    }
    ck_abort_msg("no sample of type %d", (int)type);
    return NULL;
}

/* What is decoded and encoded again has the same bytes, so nothing was lost or changed. */
START_TEST(every_message_survives)
{
    for (size_t i = 0; i < NUM_SAMPLE_MESSAGES; i++) {
        struct message back = {0};
        struct message_fault fault;
        struct frame_buffer again = {0};

        setup();
        encode(&sample_messages[i]);
        struct status status = decode(frame.data, frame.size, &back, &fault);
        ck_assert_msg(status.code == STATUS_OK, "sample %zu: %s", i, status.msg);
        ck_assert_int_eq(back.type, sample_messages[i].type);
        ck_assert_uint_eq(back.run, sample_messages[i].run);
        ck_assert_int_eq(message_encode(&back, &again).code, STATUS_OK);
        ck_assert_uint_eq(again.size, frame.size);
        ck_assert_mem_eq(again.data, frame.data, frame.size);
        frame_buffer_deinit(&again);
    }
}
END_TEST

START_TEST(fields_arrive_in_their_places)
{
    struct message back = {0};
    struct message_fault fault;

    setup();
    encode(sample(MESSAGE_GENERATE));
    ck_assert_int_eq(decode(frame.data, frame.size, &back, &fault).code, STATUS_OK);
    const struct generate_msg *sent = &sample(MESSAGE_GENERATE)->generate;
    const struct generate_msg *got = &back.generate;
    ck_assert(bytes_equal(got->rid, sent->rid) && bytes_equal(got->text, sent->text));
    ck_assert(bytes_equal(got->tools, sent->tools) && bytes_equal(got->kwargs, sent->kwargs));
    ck_assert_int_eq(got->prompt_kind, PROMPT_TEXT);
    ck_assert(!got->add_generation_prompt && !got->skip_special && got->want_ids && !got->stream);
    ck_assert_int_eq(got->parse_special, NO);
    ck_assert_int_eq(got->add_special_tokens, YES);
    ck_assert_double_eq((double)got->sampling.temperature, 0.5);
    ck_assert_double_eq((double)got->sampling.top_p, 0.25);
    ck_assert_double_eq((double)got->sampling.min_p, 0.125);
    ck_assert_int_eq(got->sampling.top_k, 40);
    ck_assert_int_eq(got->sampling.max_tokens, 77);
    ck_assert_uint_eq(got->sampling.seed, UINT64_MAX);
    ck_assert(got->has_seed && got->has_max_tokens && got->sampling.ignore_eos);
    ck_assert_int_eq(got->sampling.num_stop_token_ids, 2);
    ck_assert_int_eq(got->sampling.stop_token_ids[1], 151645);
    ck_assert_int_eq(got->num_stops, 2);
    ck_assert(bytes_equal(got->stops[1], sample_stops[1]));

    encode(sample(MESSAGE_TOKENS));
    ck_assert_int_eq(decode(frame.data, frame.size, &back, &fault).code, STATUS_OK);
    ck_assert_int_eq(back.tokens.step_end_ns, 123456789012345);
    ck_assert_int_eq(back.tokens.num_rows, 4);
    for (int i = 0; i < 4; i++) {
        const struct token_row *row = &back.tokens.rows[i];
        ck_assert_uint_eq(row->uid, sample_rows[i].uid);
        ck_assert_int_eq(row->token, sample_rows[i].token);
        ck_assert_int_eq(row->finish, sample_rows[i].finish);
        ck_assert_int_eq(row->error, sample_rows[i].error);
        ck_assert_int_eq(row->is_first, sample_rows[i].is_first);
        ck_assert_int_eq(row->num_prompt_tokens, sample_rows[i].num_prompt_tokens);
        ck_assert_int_eq(row->num_cached_tokens, sample_rows[i].num_cached_tokens);
        ck_assert(bytes_equal(row->reply_to, sample_rows[i].reply_to));
    }

    encode(sample(MESSAGE_REQUEST));
    ck_assert_int_eq(decode(frame.data, frame.size, &back, &fault).code, STATUS_OK);
    ck_assert_uint_eq(back.request.num_input_ids, 6);
    ck_assert_mem_eq(back.request.input_ids, sample_ids, sizeof(sample_ids));
    ck_assert_uint_eq(back.request.client.bytes[5], 255);
}
END_TEST

START_TEST(reply_to_survives_and_is_bounded)
{
    static uint8_t long_text[MAX_STOP_STRING_BYTES];
    struct reply_to sent = {.client = SAMPLE_CLIENT,
                            .rid = TEXT("r"),
                            .num_stops = 2,
                            .stops = sample_stops,
                            .want_ids = true,
                            .skip_special = true};
    struct reply_to got = {0};
    struct bytes stops[MAX_STOP_STRINGS + 1];

    setup();
    ck_assert_int_eq(reply_to_encode(&sent, &frame).code, STATUS_OK);
    for (size_t size = 0; size < frame.size; size++)
        ck_assert_int_ne(reply_to_decode(frame.data, size, &arena, &got).code, STATUS_OK);
    ck_assert_int_eq(reply_to_decode(frame.data, frame.size, &arena, &got).code, STATUS_OK);
    ck_assert_mem_eq(got.client.bytes, sent.client.bytes, 16);
    ck_assert(bytes_equal(got.rid, sent.rid) && bytes_equal(got.stops[0], sample_stops[0]));
    ck_assert(got.want_ids && got.skip_special && !got.stream);

    memset(long_text, 'x', sizeof(long_text)); /* the most that is allowed fits */
    for (int i = 0; i <= MAX_STOP_STRINGS; i++)
        stops[i] = (struct bytes){.data = long_text, .size = sizeof(long_text)};
    sent.stops = stops;
    sent.num_stops = MAX_STOP_STRINGS;
    ck_assert_int_eq(reply_to_encode(&sent, &frame).code, STATUS_OK);
    sent.num_stops = MAX_STOP_STRINGS + 1;
    ck_assert_int_eq(reply_to_encode(&sent, &frame).code, STATUS_INVALID);
}
END_TEST

/* A cut frame is refused, and read by a copy of its exact size, so that a sanitizer sees a read
 * beyond it. */
START_TEST(a_frame_cut_anywhere_is_refused)
{
    for (size_t i = 0; i < NUM_SAMPLE_MESSAGES; i++) {
        setup();
        encode(&sample_messages[i]);
        for (size_t size = 0; size < frame.size; size++) {
            struct message back;
            struct message_fault fault;
            uint8_t *copy = malloc(size ? size : 1);

            memcpy(copy, frame.data, size);
            struct status status = decode(copy, size, &back, &fault);
            ck_assert_msg(status.code == STATUS_FORMAT || status.code == STATUS_INVALID,
                          "sample %zu cut at %zu: %s", i, size, status_name(status.code));
            free(copy);
            arena_reset(&arena);
        }
    }
}
END_TEST

START_TEST(any_changed_byte_is_survived)
{
    for (size_t i = 0; i < NUM_SAMPLE_MESSAGES; i++) {
        setup();
        encode(&sample_messages[i]);
        for (size_t at = 0; at < frame.size; at++) {
            uint8_t was = frame.data[at];
            for (int value = 0; value < 256; value++) {
                struct message back;
                struct message_fault fault;
                struct status status;

                frame.data[at] = (uint8_t)value;
                status = decode(frame.data, frame.size, &back, &fault);
                ck_assert_int_ne(status.code, STATUS_NO_MEMORY);
                arena_reset(&arena);
            }
            frame.data[at] = was;
        }
    }
}
END_TEST

START_TEST(names_are_found_both_ways)
{
    for (int i = ERROR_INVALID_REQUEST; i <= ERROR_INTERNAL; i++) {
        enum error_code code = ERROR_NONE;
        const char *name = error_code_name((enum error_code)i);
        ck_assert(error_code_parse(name, strlen(name), &code));
        ck_assert_int_eq(code, i);
    }
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++) {
        enum finish_reason reason = FINISH_NONE;
        const char *name = finish_reason_name((enum finish_reason)i);
        ck_assert(finish_reason_parse(name, strlen(name), &reason));
        ck_assert_int_eq(reason, i);
    }
    enum error_code code;
    ck_assert(!error_code_parse("", 0, &code) && !error_code_parse("none", 4, &code));
}
END_TEST

/* The fastest of many: what a message of so many rows, or deltas, takes to encode and to decode. */
static int64_t best_ns_of(enum message_type type, int32_t num_rows)
{
    enum { MAX_ROWS = 4096, ROUNDS = 50 };
    static struct token_row rows[MAX_ROWS];
    static struct delta deltas[MAX_ROWS];
    struct message message = {.type = type};
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < num_rows; i++) {
        rows[i] = (struct token_row){.uid = UINT64_C(1) << 48 | (uint64_t)(1000 + i),
                                     .token = 100000 + i};
        deltas[i] =
            (struct delta){.rid = TEXT("request-1234"), .uid = rows[i].uid, .text = TEXT(" hello")};
    }
    if (type == MESSAGE_TOKENS)
        message.tokens = (struct tokens_msg){.num_rows = num_rows, .rows = rows};
    else
        message.deltas = (struct deltas_msg){.num_deltas = num_rows, .deltas = deltas};
    for (int round = 0; round < ROUNDS; round++) {
        struct message back;
        struct message_fault fault;

        setup();
        int64_t start_ns = clock_now_ns();
        encode(&message);
        ck_assert_int_eq(decode(frame.data, frame.size, &back, &fault).code, STATUS_OK);
        int64_t took_ns = clock_now_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return best_ns;
}

/* Sixteen times the rows: sixteen times the time, and far from its square. */
START_TEST(a_step_costs_in_proportion_to_its_rows)
{
    static const enum message_type types[] = {MESSAGE_TOKENS, MESSAGE_DELTAS};

    for (int i = 0; i < 2; i++)
        ck_assert_int_lt(best_ns_of(types[i], 4096), 64 * best_ns_of(types[i], 256));
}
END_TEST

CHECK_MAIN("messages_codec", every_message_survives, fields_arrive_in_their_places,
           reply_to_survives_and_is_bounded, a_frame_cut_anywhere_is_refused,
           any_changed_byte_is_survived, names_are_found_both_ways,
           a_step_costs_in_proportion_to_its_rows)
