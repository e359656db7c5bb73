/* codec_client.c - what clients and the tokenizer say to each other. */
#include "proto/codec.h"

enum { DEFAULT_MAX_TOKENS = 1024 };

/* clang-format off */
static const struct field generate_fields[] = {
    RID_FIELD(generate_msg, true),
    {.key = "prompt", .kind = FIELD_TEXT, AT(generate_msg, text)},
    {.key = "messages", .kind = FIELD_TEXT, AT(generate_msg, messages)},
    {.key = "input_ids", .kind = FIELD_IDS, AT(generate_msg, input_ids),
     COUNT(generate_msg, num_input_ids)},
    {.key = "tools", .kind = FIELD_TEXT, AT(generate_msg, tools)},
    {.key = "kwargs", .kind = FIELD_TEXT, AT(generate_msg, kwargs)},
    {.key = "add_generation_prompt", .kind = FIELD_BOOL, AT(generate_msg, add_generation_prompt),
     .fallback = 1},
    {.key = "parse_special", .kind = FIELD_TRISTATE, AT(generate_msg, parse_special),
     .fallback = UNSET},
    {.key = "add_special_tokens", .kind = FIELD_TRISTATE, AT(generate_msg, add_special_tokens),
     .fallback = UNSET},
    {.key = "max_tokens", .kind = FIELD_INT32, AT(generate_msg, sampling.max_tokens),
     HAS(generate_msg, has_max_tokens), .min = 1, .max = INT32_MAX, .fallback = DEFAULT_MAX_TOKENS},
    {.key = "seed", .kind = FIELD_UINT64, AT(generate_msg, sampling.seed),
     HAS(generate_msg, has_seed)},
    SAMPLING_FIELDS(generate_msg, false),
    REPLY_FIELDS(generate_msg),
    /* What other servers know and this one does not. Fallback: the value that asks for nothing. */
    {.key = "n", .kind = FIELD_UNSUPPORTED, .fallback = 1},
    {.key = "best_of", .kind = FIELD_UNSUPPORTED, .fallback = 1},
    {.key = "presence_penalty", .kind = FIELD_UNSUPPORTED},
    {.key = "frequency_penalty", .kind = FIELD_UNSUPPORTED},
    {.key = "repetition_penalty", .kind = FIELD_UNSUPPORTED, .fallback = 1},
    {.key = "logit_bias", .kind = FIELD_UNSUPPORTED},
    {.key = "logprobs", .kind = FIELD_UNSUPPORTED, .fallback = -1},
    {.key = "top_logprobs", .kind = FIELD_UNSUPPORTED},
    {.key = "prompt_logprobs", .kind = FIELD_UNSUPPORTED, .fallback = -1},
    {.key = "min_tokens", .kind = FIELD_UNSUPPORTED},
    {.key = "response_format", .kind = FIELD_UNSUPPORTED},
    {.key = "echo", .kind = FIELD_UNSUPPORTED},
    {.key = "suffix", .kind = FIELD_UNSUPPORTED},
};

static const struct field client_abort_fields[] = {
    RID_FIELD(client_abort_msg, true),
    {.key = "uid", .kind = FIELD_UINT64, AT(client_abort_msg, uid),
     HAS(client_abort_msg, has_uid), .min = 1},
    {.key = "target", .kind = FIELD_TEXT, AT(client_abort_msg, target_rid), .min = 1,
     .max = MAX_RID_BYTES},
};

static const struct field info_fields[] = {
    RID_FIELD(info_msg, true),
};

static const struct field accepted_fields[] = {
    RID_FIELD(accepted_msg, true),
    {.key = "uid", .kind = FIELD_UINT64, .required = true, AT(accepted_msg, uid), .min = 1},
};

static const struct field result_fields[] = {
    RID_FIELD(result_msg, true),
    {.key = "ids", .kind = FIELD_IDS, AT(result_msg, ids), COUNT(result_msg, num_ids),
     HAS(result_msg, has_ids)},
    {.key = "text", .kind = FIELD_TEXT, AT(result_msg, text), HAS(result_msg, has_text)},
    {.key = "info", .kind = FIELD_TEXT, AT(result_msg, info), HAS(result_msg, has_info)},
};

static const struct field error_fields[] = {
    RID_FIELD(error_msg, false),
    {.key = "uid", .kind = FIELD_UINT64, AT(error_msg, uid)},
    {.key = "code", .kind = FIELD_ERROR_CODE, .required = true, AT(error_msg, code)},
    {.key = "message", .kind = FIELD_TEXT, .required = true, AT(error_msg, message),
     .max = MAX_ERROR_BYTES},
};
/* clang-format on */

static const struct field_table generate_table = FIELD_TABLE(generate_fields);

/* The keys of the three kinds of prompt, in the order of enum prompt_kind. */
static const char *const prompt_keys[] = {"prompt", "messages", "input_ids"};

static struct status finish_generate(void *body, uint64_t seen, const char **out_field)
{
    struct generate_msg *msg = body;
    int num_prompts = 0;

    for (int kind = PROMPT_TEXT; kind <= PROMPT_IDS; kind++) {
        if (seen & field_bit(&generate_table, prompt_keys[kind])) {
            msg->prompt_kind = (enum prompt_kind)kind;
            num_prompts++;
        }
    }
    if (num_prompts != 1) {
        *out_field = "prompt";
        return status_error(STATUS_INVALID,
                            "exactly one of prompt, messages and input_ids must be "
                            "given, not %d",
                            num_prompts);
    }
    if (msg->sampling.top_k < 0)
        msg->sampling.top_k = 0; /* off, as elsewhere */
    return status_ok();
}

static uint64_t select_generate(const void *body, uint64_t set)
{
    const struct generate_msg *msg = body;

    for (int kind = PROMPT_TEXT; kind <= PROMPT_IDS; kind++)
        set &= ~field_bit(&generate_table, prompt_keys[kind]);
    return set | field_bit(&generate_table, prompt_keys[msg->prompt_kind]);
}

static struct status finish_client_abort(void *body, uint64_t seen, const char **out_field)
{
    const struct client_abort_msg *msg = body;

    (void)seen;
    if (msg->has_uid == (msg->target_rid.size > 0)) {
        *out_field = "target";
        return status_error(STATUS_INVALID, "exactly one of uid and target must be given");
    }
    return status_ok();
}

const struct message_codec codec_generate = {
    .table = FIELD_TABLE(generate_fields), .finish = finish_generate, .select = select_generate};
const struct message_codec codec_client_abort = {.table = FIELD_TABLE(client_abort_fields),
                                                 .finish = finish_client_abort};
const struct message_codec codec_info = {.table = FIELD_TABLE(info_fields)};
const struct message_codec codec_accepted = {.table = FIELD_TABLE(accepted_fields)};
const struct message_codec codec_result = {.table = FIELD_TABLE(result_fields)};
const struct message_codec codec_error = {.table = FIELD_TABLE(error_fields)};
