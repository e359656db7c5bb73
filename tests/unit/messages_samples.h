/*
 * messages_samples.h - one message of every kind, every field set: for tests of the codec and of
 * whoever passes messages on.
 */
#ifndef TESTS_UNIT_MESSAGES_SAMPLES_H
#define TESTS_UNIT_MESSAGES_SAMPLES_H

#include "proto/messages.h"

#define TEXT(text)                                                                                 \
    {                                                                                              \
        .data = (const uint8_t *)(text), .size = sizeof(text) - 1                                  \
    }

static const int32_t sample_ids[] = {0, 1, 127, 128, 70000, INT32_MAX};
static const int32_t sample_stop_ids[] = {2, 151645};
static const struct bytes sample_stops[] = {TEXT("\n\n"), TEXT("h\xc3\xa9las")};

#define SAMPLE_CLIENT                                                                              \
    {                                                                                              \
        .bytes = { 1, 2, 3, 4, 0, 255, 254, 0, 9, 10, 11, 12, 13, 14, 15, 16 }                     \
    }

#define SAMPLE_SAMPLING                                                                            \
    {                                                                                              \
        .temperature = 0.5f, .top_p = 0.25f, .min_p = 0.125f, .top_k = 40, .max_tokens = 77,       \
        .seed = UINT64_MAX, .ignore_eos = true, .num_stop_token_ids = 2,                           \
        .stop_token_ids = sample_stop_ids                                                          \
    }

#define SAMPLE_GENERATE(kind)                                                                      \
    {                                                                                              \
        .rid = TEXT("req-1"), .prompt_kind = (kind), .text = TEXT("a\0b \xe4\xb8\x96"),            \
        .messages = TEXT("[{\"role\":\"user\"}]"), .tools = TEXT("[]"), .kwargs = TEXT("{}"),      \
        .input_ids = sample_ids, .num_input_ids = 6, .add_generation_prompt = false,               \
        .parse_special = NO, .add_special_tokens = YES, .sampling = SAMPLE_SAMPLING,               \
        .has_seed = true, .has_max_tokens = true, .num_stops = 2, .stops = sample_stops,           \
        .skip_special = false, .want_ids = true, .stream = false                                   \
    }

static const struct token_row sample_rows[] = {
    {.uid = 1,
     .token = 5,
     .is_first = true,
     .reply_to = TEXT("\x80"),
     .num_prompt_tokens = 9,
     .num_cached_tokens = 8},
    {.uid = UINT64_MAX, .token = INT32_MAX, .finish = FINISH_LENGTH},
    {.uid = 3, .token = TOKEN_NONE, .finish = FINISH_ERROR, .error = ERROR_INTERNAL},
    {.uid = 4, .token = 0},
};

static const struct delta sample_deltas[] = {
    {.rid = TEXT("a"), .uid = 1, .text = TEXT("h\xc3\xa9"), .ids = sample_ids, .num_ids = 6},
    {.rid = TEXT("b"),
     .uid = 2,
     .finish = FINISH_ERROR,
     .error = ERROR_SLOW_CLIENT,
     .error_message = TEXT("too slow"),
     .usage = {.prompt_tokens = 1, .completion_tokens = 2, .cached_tokens = 3},
     .first_token_ns = 5,
     .last_token_ns = INT64_MAX},
};

static const struct message sample_messages[] = {
    {.type = MESSAGE_GENERATE, .generate = SAMPLE_GENERATE(PROMPT_TEXT)},
    {.type = MESSAGE_GENERATE, .generate = SAMPLE_GENERATE(PROMPT_MESSAGES)},
    {.type = MESSAGE_TOKENIZE, .generate = SAMPLE_GENERATE(PROMPT_IDS)},
    {.type = MESSAGE_RENDER, .generate = SAMPLE_GENERATE(PROMPT_MESSAGES)},
    {.type = MESSAGE_CLIENT_ABORT,
     .client_abort = {.rid = TEXT("x"), .has_uid = true, .uid = UINT64_MAX}},
    {.type = MESSAGE_CLIENT_ABORT, .client_abort = {.rid = TEXT("x"), .target_rid = TEXT("y")}},
    {.type = MESSAGE_INFO, .info = {.rid = TEXT("i")}},
    {.type = MESSAGE_ACCEPTED, .accepted = {.rid = TEXT("i"), .uid = 1}},
    {.type = MESSAGE_RESULT,
     .result = {.rid = TEXT("i"),
                .has_ids = true,
                .ids = sample_ids,
                .num_ids = 6,
                .has_text = true,
                .text = TEXT("t"),
                .has_info = true,
                .info = TEXT("{}")}},
    {.type = MESSAGE_ERROR,
     .error = {.rid = TEXT("i"), .uid = 9, .code = ERROR_TOO_LONG, .message = TEXT("513 > 512")}},
    {.type = MESSAGE_REQUEST,
     .run = UINT64_MAX,
     .request = {.uid = UINT64_C(1) << 48 | 7,
                 .client = SAMPLE_CLIENT,
                 .input_ids = sample_ids,
                 .num_input_ids = 6,
                 .sampling = SAMPLE_SAMPLING,
                 .reply_to = TEXT("\x81\xa1x\x01")}},
    {.type = MESSAGE_ABORT, .run = 5, .abort = {.uid = 3}},
    {.type = MESSAGE_ABORT, .run = 5, .abort = {.by_client = true, .client = SAMPLE_CLIENT}},
    {.type = MESSAGE_TOKENS,
     .run = 5,
     .tokens = {.step_end_ns = 123456789012345, .num_rows = 4, .rows = sample_rows}},
    {.type = MESSAGE_REJECTED,
     .run = 5,
     .rejected = {.uid = 3,
                  .code = ERROR_OVERLOADED,
                  .message = TEXT("queue is full"),
                  .reply_to = TEXT("\x80")}},
    {.type = MESSAGE_HELLO},
    {.type = MESSAGE_HELLO_OK, .presence = {.session = 1}},
    {.type = MESSAGE_ALIVE, .presence = {.session = UINT64_MAX, .num_sent = 70000}},
    {.type = MESSAGE_DELTAS, .deltas = {.num_deltas = 2, .deltas = sample_deltas}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_PING}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_STATS}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_DRAIN}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_FLUSH_CACHE}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_LOG_LEVEL, .level = TEXT("debug")}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_NORMAL_LOOP}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_OVERLAP_LOOP}},
    {.type = MESSAGE_CONTROL, .control = {.command = CONTROL_CHECK}},
    {.type = MESSAGE_CONTROL_REPLY,
     .control_reply = {.ok = true, .info = TEXT("{}"), .message = TEXT("m")}},
};

enum { NUM_SAMPLE_MESSAGES = sizeof(sample_messages) / sizeof(sample_messages[0]) };

#endif
