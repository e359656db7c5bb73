/* test_workers.c - frames to answers on threads, without sockets: job, prompt and workers together.
 */
#include "tokenizer_proc/workers.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_main.h"

static const struct prompt_model ids_only = {.info = {.vocab_size = 100, .max_seq_len = 8}};

static struct job *make_job(const struct generate_msg *generate, uint64_t uid)
{
    const struct message message = {.type = MESSAGE_GENERATE, .generate = *generate};
    struct frame_buffer frame = {0};
    struct message_fault fault;
    struct status decoded = {0};
    struct job *job = NULL;

    ck_assert_int_eq(message_encode(&message, &frame).code, STATUS_OK);
    ck_assert_int_eq(
        job_create((struct bytes){frame.data, frame.size}, &job, &decoded, &fault).code, STATUS_OK);
    ck_assert_int_eq(decoded.code, STATUS_OK);
    frame_buffer_deinit(&frame);
    job->uid = uid;
    job->run = 9;
    job->seed = 77;
    job->client.bytes[0] = 1;
    return job;
}

static struct generate_msg generate_of(const int32_t *ids, size_t num_ids)
{
    return (struct generate_msg){.rid = {(const uint8_t *)"r", 1},
                                 .prompt_kind = PROMPT_IDS,
                                 .input_ids = ids,
                                 .num_input_ids = num_ids,
                                 .add_generation_prompt = true,
                                 .parse_special = UNSET,
                                 .add_special_tokens = UNSET,
                                 .sampling = {.top_p = 1, .max_tokens = 1024},
                                 .skip_special = true,
                                 .stream = true};
}

static void decode(const struct frame_buffer *frame, struct arena *arena, struct message *out)
{
    struct message_fault fault;
    ck_assert_int_eq(message_decode(frame->data, frame->size, arena, out, &fault).code, STATUS_OK);
}

START_TEST(a_job_gives_an_answer_and_a_request)
{
    static const int32_t ids[] = {1, 2, 99};
    struct generate_msg generate = generate_of(ids, 3);
    struct prompt_maker maker;
    struct message message;
    struct reply_to reply_to;
    struct arena arena;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(prompt_maker_init(&maker, &ids_only).code, STATUS_OK);
    struct job *job = make_job(&generate, 5);
    job_run(job, &maker);
    ck_assert_int_eq(job->error, ERROR_NONE);
    decode(&job->answer, &arena, &message);
    ck_assert_int_eq(message.type, MESSAGE_ACCEPTED);
    ck_assert_uint_eq(message.accepted.uid, 5);
    decode(&job->request, &arena, &message);
    ck_assert_int_eq(message.type, MESSAGE_REQUEST);
    ck_assert_uint_eq(message.run, 9);
    ck_assert_uint_eq(message.request.sampling.seed, 77);
    ck_assert_uint_eq(message.request.num_input_ids, 3);
    ck_assert_int_eq(reply_to_decode(message.request.reply_to.data, message.request.reply_to.size,
                                     &arena, &reply_to)
                         .code,
                     STATUS_OK);
    ck_assert(reply_to.stream && reply_to.skip_special);
    job_refuse(job, ERROR_OVERLOADED, "full"); /* and it can be taken back */
    decode(&job->answer, &arena, &message);
    ck_assert_int_eq(message.error.code, ERROR_OVERLOADED);
    ck_assert_uint_eq(job->request.size, 0);
    job_destroy(&job);
    prompt_maker_deinit(&maker);
    arena_deinit(&arena);
}
END_TEST

START_TEST(what_the_model_cannot_take_is_refused)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8}, foreign[] = {1, 100}, stop[] = {100};
    struct generate_msg with_stop = generate_of(ids, 1);
    struct generate_msg text = generate_of(ids, 0);
    struct arena arena;
    struct prompt_maker maker;

    with_stop.sampling.stop_token_ids = stop;
    with_stop.sampling.num_stop_token_ids = 1;
    text.prompt_kind = PROMPT_TEXT;
    text.text = (struct bytes){(const uint8_t *)"x", 1};
    const struct {
        struct generate_msg generate;
        enum error_code code;
    } cases[] = {{generate_of(ids, 7), ERROR_NONE},
                 {generate_of(ids, 8), ERROR_TOO_LONG},
                 {generate_of(ids, 0), ERROR_INVALID_REQUEST},
                 {generate_of(foreign, 2), ERROR_INVALID_REQUEST},
                 {with_stop, ERROR_INVALID_REQUEST},
                 {text, ERROR_INVALID_REQUEST}};
    arena_init(&arena, 0, 0);
    ck_assert_int_eq(prompt_maker_init(&maker, &ids_only).code, STATUS_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct job *job = make_job(&cases[i].generate, 1);
        struct message message;

        job_run(job, &maker);
        ck_assert_int_eq(job->error, cases[i].code);
        decode(&job->answer, &arena, &message);
        ck_assert_int_eq(message.type, cases[i].code ? MESSAGE_ERROR : MESSAGE_ACCEPTED);
        ck_assert_uint_eq(job->request.size > 0, cases[i].code == ERROR_NONE);
        job_destroy(&job);
    }
    prompt_maker_deinit(&maker);
    arena_deinit(&arena);
}
END_TEST

START_TEST(all_that_is_pushed_comes_back_done)
{
    enum { NUM_JOBS = 500 };
    static const int32_t ids[] = {1};
    struct generate_msg generate = generate_of(ids, 1);
    struct workers *workers = NULL;
    bool seen[NUM_JOBS] = {false};
    int num_done = 0;

    ck_assert_int_eq(workers_start(4, &ids_only, &workers).code, STATUS_OK);
    ck_assert_ptr_null(workers_take_done(workers));
    for (int i = 0; i < NUM_JOBS; i++)
        workers_push(workers, make_job(&generate, (uint64_t)i + 1));
    while (num_done < NUM_JOBS) {
        struct pollfd item = {.fd = workers_fd(workers), .events = POLLIN};
        ck_assert_int_eq(poll(&item, 1, 60000), 1);
        struct job *next, *job = workers_take_done(workers);
        for (; job; job = next) {
            next = job->next;
            ck_assert_uint_gt(job->answer.size, 0);
            ck_assert(!seen[job->uid - 1]);
            seen[job->uid - 1] = true;
            num_done++;
            job_destroy(&job);
        }
    }
    ck_assert(workers_stop(&workers, 60000));
    ck_assert_ptr_null(workers);
}
END_TEST

START_TEST(stopping_frees_what_was_not_taken_back)
{
    static const int32_t ids[] = {1};
    struct generate_msg generate = generate_of(ids, 1);
    struct workers *workers = NULL;

    ck_assert_int_eq(workers_start(2, &ids_only, &workers).code, STATUS_OK);
    for (int i = 0; i < 100; i++)
        workers_push(workers, make_job(&generate, 1));
    ck_assert(workers_stop(&workers, 60000));
    ck_assert(workers_stop(&workers, 0)); /* of nothing */
}
END_TEST

CHECK_MAIN("workers", a_job_gives_an_answer_and_a_request, what_the_model_cannot_take_is_refused,
           all_that_is_pushed_comes_back_done, stopping_frees_what_was_not_taken_back)
