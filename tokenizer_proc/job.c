/* job.c - see job.h. */
#include "tokenizer_proc/job.h"

#include <stdlib.h>
#include <string.h>

enum {
    ARENA_BLOCK_BYTES = 4096,
    JOB_OVERHEAD_BYTES = 4096, /* what a job costs beside its frame, about */
    MAX_JOB_BYTES = 512 << 20, /* of what is made of a frame: trees, texts */
};

static struct bytes text_of(const char *text)
{
    return (struct bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

/* The request's name, in whichever message it is. */
static struct bytes rid_of(const struct message *message)
{
    switch (message->type) {
    case MESSAGE_GENERATE:
    case MESSAGE_TOKENIZE:
    case MESSAGE_RENDER:
        return message->generate.rid;
    case MESSAGE_CLIENT_ABORT:
        return message->client_abort.rid;
    case MESSAGE_INFO:
        return message->info.rid;
    default:
        return (struct bytes){0};
    }
}

struct status job_create(struct bytes frame, struct job **out, struct status *out_status,
                         struct message_fault *out_fault)
{
    struct job *job = calloc(1, sizeof(*job));
    uint8_t *copy = malloc(frame.size + 1);

    if (!job) {
        free(copy);
        return status_error(STATUS_NO_MEMORY, "no memory for a request");
    }
    if (copy && frame.size)
        memcpy(copy, frame.data, frame.size);
    job->frame = copy;
    job->cost = frame.size + JOB_OVERHEAD_BYTES;
    arena_init(&job->arena, ARENA_BLOCK_BYTES, MAX_JOB_BYTES);
    *out_status =
        message_decode(copy ? copy : frame.data, frame.size, &job->arena, &job->message, out_fault);
    job->rid = out_status->code ? out_fault->rid : rid_of(&job->message);
    if (!copy && out_status->code == STATUS_OK)
        *out_status =
            status_error(STATUS_NO_MEMORY, "no memory for a request of %zu bytes", frame.size);
    *out = job;
    return status_ok();
}

void job_destroy(struct job **job_ptr)
{
    struct job *job = *job_ptr;

    if (!job)
        return;
    frame_buffer_deinit(&job->answer);
    frame_buffer_deinit(&job->request);
    arena_deinit(&job->arena);
    free(job->frame);
    free(job);
    *job_ptr = NULL;
}

static void encode_answer(struct job *job, const struct message *message)
{
    struct status status = message_encode(message, &job->answer);

    if (status.code == STATUS_OK)
        return;
    /* What cannot be encoded is too large an answer or no memory: say that, in a few bytes. */
    job_refuse(job, ERROR_INTERNAL, status.msg);
}

void job_refuse(struct job *job, enum error_code code, const char *text)
{
    struct message message = {.type = MESSAGE_ERROR,
                              .error = {.rid = job->rid, .code = code, .message = text_of(text)}};

    job->request.size = 0;
    job->error = code;
    if (message_encode(&message, &job->answer).code)
        job->answer.size = 0; /* not even that: the client's own clock must do */
}

void job_answer(struct job *job, struct bytes info)
{
    encode_answer(job, &(struct message){
                           .type = MESSAGE_RESULT,
                           .result = {.rid = job->rid, .has_info = info.size > 0, .info = info}});
}

void job_abort(struct job *job, uint64_t uid)
{
    const struct message message = {.type = MESSAGE_ABORT, .run = job->run, .abort = {.uid = uid}};
    struct status status = message_encode(&message, &job->request);

    if (status.code)
        job_refuse(job, ERROR_INTERNAL, status.msg);
}

static enum error_code error_of(struct status status)
{
    switch (status.code) {
    case STATUS_INVALID:
    case STATUS_FORMAT:
    case STATUS_UNSUPPORTED:
        return ERROR_INVALID_REQUEST;
    case STATUS_NO_SPACE:
        return ERROR_TOO_LONG;
    default:
        return ERROR_INTERNAL;
    }
}

/* The frame for the scheduler: the message with its defaults and the drawn seed put in. */
static struct status encode_request(struct job *job, const struct prompt *prompt)
{
    const struct generate_msg *generate = &job->message.generate;
    struct message message = {.type = MESSAGE_REQUEST,
                              .run = job->run,
                              .request = {.uid = job->uid,
                                          .client = job->client,
                                          .input_ids = prompt->ids,
                                          .num_input_ids = prompt->num_ids,
                                          .sampling = generate->sampling}};
    const struct reply_to reply_to = {.client = job->client,
                                      .rid = generate->rid,
                                      .num_stops = generate->num_stops,
                                      .stops = generate->stops,
                                      .skip_special = generate->skip_special,
                                      .want_ids = generate->want_ids,
                                      .stream = generate->stream};
    struct frame_buffer reply_bytes = {0};
    struct status status = reply_to_encode(&reply_to, &reply_bytes);

    if (status.code == STATUS_OK) {
        message.request.reply_to =
            (struct bytes){.data = reply_bytes.data, .size = reply_bytes.size};
        if (!generate->has_seed)
            message.request.sampling.seed = job->seed;
        status = message_encode(&message, &job->request);
    }
    frame_buffer_deinit(&reply_bytes);
    return status;
}

static struct status run_generate(struct job *job, struct prompt_maker *maker)
{
    struct prompt prompt = {0};
    struct status status =
        prompt_make(maker, &job->message.generate, job->now_s, &job->arena, &prompt);

    if (status.code == STATUS_OK)
        status = prompt_check(maker->model, &job->message.generate, &prompt);
    if (status.code == STATUS_OK)
        status = encode_request(job, &prompt);
    if (status.code)
        return status;
    job->num_prompt_tokens = prompt.num_ids;
    encode_answer(job, &(struct message){.type = MESSAGE_ACCEPTED,
                                         .accepted = {.rid = job->rid, .uid = job->uid}});
    return status_ok();
}

static struct status run_tokenize(struct job *job, struct prompt_maker *maker)
{
    bool is_render = job->message.type == MESSAGE_RENDER;
    struct prompt prompt = {0};

    if (is_render && job->message.generate.prompt_kind != PROMPT_MESSAGES)
        return status_error(STATUS_INVALID, "render takes messages only");
    struct status status =
        prompt_make(maker, &job->message.generate, job->now_s, &job->arena, &prompt);
    if (status.code)
        return status;
    encode_answer(job, &(struct message){.type = MESSAGE_RESULT,
                                         .result = {.rid = job->rid,
                                                    .has_ids = true,
                                                    .ids = prompt.ids,
                                                    .num_ids = prompt.num_ids,
                                                    .has_text = is_render,
                                                    .text = prompt.text}});
    return status_ok();
}

void job_run(struct job *job, struct prompt_maker *maker)
{
    struct status status =
        job->message.type == MESSAGE_GENERATE ? run_generate(job, maker) : run_tokenize(job, maker);

    if (status.code)
        job_refuse(job, error_of(status), status.msg);
}
