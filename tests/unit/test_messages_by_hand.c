/*
 * test_messages_by_hand.c - frames as a client of any language may write them: what is wrong in one
 * is named, what is right is taken.
 */
#include "proto/messages_codec.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/codec_rig.h"

struct hand_frame {
    uint8_t data[4096];
    size_t size;
};

static void put(struct hand_frame *hand, const char *bytes, size_t size)
{
    memcpy(hand->data + hand->size, bytes, size);
    hand->size += size;
}

#define PUT(hand, literal) put((hand), (literal), sizeof(literal) - 1)

static void put_key(struct hand_frame *hand, const char *key)
{
    char head[2] = {(char)0xd9, (char)strlen(key)};

    put(hand, head, 2);
    put(hand, key, strlen(key));
}

/* {"type": "generate", "v": 1, "rid": "r", "prompt": "p", key: value} */
static void hand_generate(struct hand_frame *hand, const char *key, const char *value, size_t size)
{
    hand->size = 0;
    PUT(hand, "\x85\xa4type\xa8generate\xa1v\x01\xa3rid\xa1r\xa6prompt\xa1p");
    put_key(hand, key);
    put(hand, value, size);
}

/* The rid of the frames here. */
static bool is_r(struct bytes rid)
{
    return rid.size == 1 && rid.data[0] == 'r';
}

/* What a client of any language may get wrong, and the word that it must read in the answer. */
static const struct wrong_value {
    const char *key, *value;
    size_t size;
    const char *says;
} wrong_values[] = {
#define V(bytes) bytes, sizeof(bytes) - 1
    {"max_tokens", V("\xff"), "max_tokens must be an integer from 1 to 2147483647, not -1"},
    {"max_tokens", V("\x00"), "from 1"},
    {"max_tokens", V("\xcb\x40\x0c\x00\x00\x00\x00\x00\x00"), "not 3.5"},
    {"max_tokens",
     V("\xa2"
       "10"),
     "not a string"},
    {"max_tokens", V("\xcf\x0d\xe0\xb6\xb3\xa7\x64\x00\x00"), "not 1000000000000000000"},
    {"max_tokens", V("\xcb\x43\xab\xc1\x6d\x67\x4e\xc8\x00"), "not 1e+18"},
    {"max_tokens", V("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), "not 18446744073709551615"},
    {"max_tokens", V("\xd2\x80\x00\x00\x00"), "not -2147483648"},
    {"temperature", V("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), "from 0 to 100, not nan"},
    {"temperature", V("\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"), "not inf"},
    {"temperature", V("\xca\xff\x80\x00\x00"), "not -inf"},
    {"temperature", V("\xff"), "not -1"},
    {"temperature", V("\xc3"), "not true"},
    {"top_k", V("\xcb\x3f\x84\x7a\xe1\x47\xae\x14\x7b"), "not 0.01"},
    {"top_k", V("\xfe"), "not -2"},
    {"top_p", V("\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"),
     "top_p must be a number from 0 to 1, not 1.5"},
    {"top_p", V("\xff"), "top_p"},
    {"top_p", V("\xa1x"), "not a string"},
    {"min_p", V("\x02"), "min_p"},
    {"seed", V("\xff"), "seed must be an integer from 0"},
    {"seed", V("\xca\x3f\x80\x00\x00"), "seed"},
    {"max_tokens", V("\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"), "not 1.0"},
    {"temperature", V("\xcb\x40\x59\x00\x00\x00\x00\x00\x01"), "not 100.00000000000001"},
    {"ignore_eos", V("\x01"), "ignore_eos must be true or false, not 1"},
    {"stream", V("\xa4true"), "stream"},
    {"stop", V("\x01"), "stop must be a string or an array of strings, not 1"},
    {"stop", V("\x91\x01"), "stop[0]"},
    {"stop", V("\x91\xa0"), "stop must not be empty"},
    {"stop", V("\x91\xa1\xff"), "valid UTF-8"},
    {"stop",
     V("\xdc\x00\x11\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q\xa1q"
       "\xa1q\xa1q\xa1q"),
     "at most 16 items, not 17"},
    {"stop_token_ids", V("\x91\xff"), "stop_token_ids[0]"},
    {"stop_token_ids", V("\x05"), "stop_token_ids"},
    {"input_ids", V("\x91\x01"), "exactly one of"},
    {"messages", V("\xa2[]"), "exactly one of"},
    {"prompt", V("\xa1\xff"), "prompt is not valid UTF-8"},
    {"prompt", V("\xa3\xed\xa0\x80"), "prompt is not valid UTF-8"},
    {"prompt", V("\xc4\x01p"), "prompt must be a string, not bytes"},
    {"rid", V("\x07"), "rid must be a string, not 7"},
    {"rid", V("\xa0"), "rid must not be empty"},
    {"n", V("\x02"), "n is not supported"},
    {"logprobs", V("\xc3"), "logprobs is not supported"},
    {"logprobs", V("\x05"), "logprobs is not supported"},
    {"response_format", V("\x81\xa4type\xa4json"), "response_format is not supported"},
    {"presence_penalty", V("\xca\x3f\x80\x00\x00"), "presence_penalty is not supported"},
    {"logit_bias", V("\x81\x01\x01"), "logit_bias is not supported"},
    {"top_k", V("\xc1"), "cut or malformed in top_k"},
};

START_TEST(what_is_wrong_is_named)
{
    for (size_t i = 0; i < sizeof(wrong_values) / sizeof(wrong_values[0]); i++) {
        const struct wrong_value *wrong = &wrong_values[i];
        struct hand_frame hand = {.size = 0};
        struct message back;
        struct message_fault fault;

        setup();
        hand_generate(&hand, wrong->key, wrong->value, wrong->size);
        struct status status = decode(hand.data, hand.size, &back, &fault);
        ck_assert_msg(status.code == STATUS_INVALID, "%s: %s", wrong->says,
                      status_name(status.code));
        ck_assert_msg(strstr(status.msg, wrong->says), "'%s' is not in '%s'", wrong->says,
                      status.msg);
        if (strcmp(wrong->key, "rid") != 0) {
            ck_assert(is_r(fault.rid));
            if (!strstr(wrong->says, "exactly"))
                ck_assert_str_eq(fault.field, wrong->key);
        }
    }
}
END_TEST

static const struct wrong_value right_values[] = {
    {"max_tokens", V("\xce\x7f\xff\xff\xff"), NULL},
    {"temperature", V("\x01"), NULL},
    {"temperature", V("\xcb\x39\xb4\x48\x4b\xfe\xeb\xc2\xa0"), NULL}, /* 1e-30 */
    {"top_k", V("\xff"), NULL},
    {"top_k", V("\x00"), NULL},
    {"top_k", V("\xce\x00\x98\x96\x7f"), NULL},
    {"top_p", V("\x00"), NULL},
    {"top_p", V("\xcb\x3e\x11\x2e\x0b\xe8\x26\xd6\x95"), NULL}, /* 1e-9 */
    {"stop",
     V("\xa3"
       "END"),
     NULL},
    {"stop", V("\x90"), NULL},
    {"stop", V("\xc0"), NULL},
    {"seed", V("\xc0"), NULL},
    {"n", V("\x01"), NULL},
    {"logprobs", V("\xc2"), NULL},
    {"logit_bias", V("\x80"), NULL},
    {"presence_penalty", V("\xca\x00\x00\x00\x00"), NULL},
    {"response_format", V("\xc0"), NULL},
    {"never_heard_of", V("\x82\x01\x91\x92\x01\x02\xa1k\xc7\x01\x05z"), NULL},
};

START_TEST(what_is_right_is_taken)
{
    for (size_t i = 0; i < sizeof(right_values) / sizeof(right_values[0]); i++) {
        struct hand_frame hand = {.size = 0};
        struct message back;
        struct message_fault fault;

        setup();
        hand_generate(&hand, right_values[i].key, right_values[i].value, right_values[i].size);
        struct status status = decode(hand.data, hand.size, &back, &fault);
        ck_assert_msg(status.code == STATUS_OK, "%zu: %s", i, status.msg);
        ck_assert_int_ge(back.generate.sampling.top_k, 0);
    }
}
END_TEST

START_TEST(defaults_are_those_of_the_protocol)
{
    struct hand_frame hand = {.size = 0};
    struct message back;
    struct message_fault fault;

    setup();
    hand_generate(&hand, "x", "\xc0", 1);
    ck_assert_int_eq(decode(hand.data, hand.size, &back, &fault).code, STATUS_OK);
    const struct generate_msg *got = &back.generate;
    ck_assert(got->sampling.temperature <= 0 && got->sampling.min_p <= 0);
    ck_assert(got->sampling.top_p >= 1);
    ck_assert_int_eq(got->sampling.top_k, 0);
    ck_assert_int_eq(got->sampling.max_tokens, 1024);
    ck_assert(!got->has_max_tokens && !got->has_seed && !got->sampling.ignore_eos);
    ck_assert(got->skip_special && got->stream && !got->want_ids && got->add_generation_prompt);
    ck_assert_int_eq(got->parse_special, UNSET);
    ck_assert_int_eq(got->add_special_tokens, UNSET);
    ck_assert_int_eq(got->num_stops, 0);
}
END_TEST

START_TEST(the_shared_keys_may_stand_anywhere)
{
    static const char frames[][64] = {"\x84\xa3uid\x07\xa3rid\xa1r\xa1v\x01\xa4type\xa8"
                                      "accepted",
                                      "\x84\xa3run\x05\xa3uid\x07\xa1v\x01\xa4type\xa5"
                                      "abort",
                                      "\x84\xa4type\xa5"
                                      "abort\xa1v\x01\xa3uid\x07\xa3run\x05",
                                      "\x84\xa4type\xa5"
                                      "abort\xa1v\x01\xa3uid\x07\xa3rid\xa1r"};
    static const enum message_type types[] = {MESSAGE_ACCEPTED, MESSAGE_ABORT, MESSAGE_ABORT,
                                              MESSAGE_CLIENT_ABORT};

    for (int i = 0; i < 4; i++) {
        struct message back;
        struct message_fault fault;

        setup();
        struct status status = decode(frames[i], strlen(frames[i]), &back, &fault);
        ck_assert_msg(status.code == STATUS_OK, "%d: %s", i, status.msg);
        ck_assert_int_eq(back.type, types[i]);
        ck_assert_uint_eq(back.run, types[i] == MESSAGE_ABORT ? 5 : 0);
    }
}
END_TEST

START_TEST(frames_that_are_no_message_are_dropped)
{
    static const struct wrong_value frames[] = {
        {"empty", V(""), NULL},
        {"array", V("\x90"), NULL},
        {"number", V("\x07"), NULL},
        {"no type", V("\x81\xa1v\x01"), NULL},
        {"type 7", V("\x81\xa4type\x07"), NULL},
        {"text", V("GET / HTTP/1.1\r\n"), NULL},
        {"claims 4 G pairs", V("\xdf\xff\xff\xff\xff\xa4type\xa4info"), NULL},
    };

    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct message back;
        struct message_fault fault;

        setup();
        ck_assert_msg(decode(frames[i].value, frames[i].size, &back, &fault).code == STATUS_FORMAT,
                      "%s", frames[i].key);
    }
}
END_TEST

/* Nesting is bounded by a number, not by the stack; counts are believed up to the frame's end. */
START_TEST(bombs_are_refused_without_memory)
{
    enum { DEPTH = 100000 };
    struct hand_frame hand = {.size = 0};
    struct message back;
    struct message_fault fault;
    char *bomb = malloc(DEPTH + 1);

    setup();
    memset(bomb, '\x91', DEPTH);
    bomb[DEPTH] = '\xc0';
    ck_assert_int_eq(decode(bomb, DEPTH + 1, &back, &fault).code, STATUS_FORMAT);
    uint8_t *inside = malloc(DEPTH + 200);
    hand_generate(&hand, "unknown", "", 0);
    memcpy(inside, hand.data, hand.size);
    memcpy(inside + hand.size, bomb, DEPTH + 1);
    ck_assert_int_eq(decode(inside, hand.size + DEPTH + 1, &back, &fault).code, STATUS_INVALID);
    ck_assert(is_r(fault.rid));

    static const struct wrong_value claims[] = {
        {"input_ids", V("\xdd\xff\xff\xff\xff"), NULL}, {"stop", V("\xdd\x10\x00\x00\x00"), NULL},
        {"prompt", V("\xdb\xff\xff\xff\xff"), NULL},    {"tools", V("\xc6\xff\xff\xff\xff"), NULL},
        {"unknown", V("\xdf\xff\xff\xff\xff"), NULL},
    };
    size_t held = arena.total_size;
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        hand_generate(&hand, claims[i].key, claims[i].value, claims[i].size);
        ck_assert_int_eq(decode(hand.data, hand.size, &back, &fault).code, STATUS_INVALID);
    }
    ck_assert_uint_eq(arena.total_size, held);
    free(bomb);
    free(inside);
}
END_TEST

START_TEST(every_key_refuses_every_wrong_type)
{
    static const char *const keys[] = {
        "rid",
        "prompt",
        "tools",
        "kwargs",
        "add_generation_prompt",
        "parse_special",
        "add_special_tokens",
        "max_tokens",
        "seed",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "ignore_eos",
        "stop_token_ids",
        "stop",
        "skip_special",
        "want_ids",
        "stream",
        "input_ids",
        "messages",
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct hand_frame hand = {.size = 0};
        struct message back;
        struct message_fault fault;

        setup();
        hand_generate(&hand, keys[i], "\xc7\x01\x05z", 4); /* an extension fits nowhere */
        ck_assert_int_eq(decode(hand.data, hand.size, &back, &fault).code, STATUS_INVALID);
        ck_assert_str_eq(fault.field, keys[i]);
        hand_generate(&hand, keys[i], "\x81\x01\x01", 3); /* nor does a map */
        ck_assert_int_eq(decode(hand.data, hand.size, &back, &fault).code, STATUS_INVALID);
        ck_assert_str_eq(fault.field, keys[i]);
    }
}
END_TEST

START_TEST(missing_keys_are_named)
{
    static const char no_uid[] = "\x83\xa4type\xa8"
                                 "accepted\xa1v\x01\xa3rid\xa1r";
    static const char no_version[] = "\x83\xa4type\xa8"
                                     "accepted\xa3uid\x01\xa3rid\xa1r";
    static const char nil_uid[] = "\x84\xa4type\xa8"
                                  "accepted\xa1v\x01\xa3rid\xa1r\xa3uid\xc0";
    static const char version_2[] = "\x83\xa4type\xa4info\xa1v\x02\xa3rid\xa1r";
    static const char what[] = "\x83\xa4type\xa4what\xa1v\x01\xa3rid\xa1r";
    struct message back;
    struct message_fault fault;

    setup();
    ck_assert_int_eq(decode(no_uid, sizeof(no_uid) - 1, &back, &fault).code, STATUS_INVALID);
    ck_assert_str_eq(fault.field, "uid");
    ck_assert_int_eq(decode(nil_uid, sizeof(nil_uid) - 1, &back, &fault).code, STATUS_INVALID);
    ck_assert_str_eq(fault.field, "uid");
    ck_assert_int_eq(decode(no_version, sizeof(no_version) - 1, &back, &fault).code,
                     STATUS_INVALID);
    ck_assert_str_eq(fault.field, "v");
    ck_assert_int_eq(decode(version_2, sizeof(version_2) - 1, &back, &fault).code, STATUS_INVALID);
    ck_assert_str_eq(fault.field, "v");
    ck_assert_int_eq(decode(what, sizeof(what) - 1, &back, &fault).code, STATUS_INVALID);
    ck_assert_str_eq(fault.field, "type");
    ck_assert(is_r(fault.rid));
}
END_TEST

CHECK_MAIN("messages_by_hand", what_is_wrong_is_named, what_is_right_is_taken,
           defaults_are_those_of_the_protocol, the_shared_keys_may_stand_anywhere,
           frames_that_are_no_message_are_dropped, bombs_are_refused_without_memory,
           every_key_refuses_every_wrong_type, missing_keys_are_named)
