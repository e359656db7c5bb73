/* prompt.c - see prompt.h. */
#include "tokenizer_proc/prompt.h"

struct status prompt_maker_init(struct prompt_maker *maker, const struct prompt_model *model)
{
    *maker = (struct prompt_maker){.model = model};
    if (!model->tokenizer)
        return status_ok();
    return encoder_create(model->tokenizer, &maker->encoder);
}

void prompt_maker_deinit(struct prompt_maker *maker)
{
    encoder_destroy(&maker->encoder);
    token_list_deinit(&maker->ids);
    *maker = (struct prompt_maker){0};
}

static bool choose(enum tristate wanted, bool otherwise)
{
    return wanted == UNSET ? otherwise : wanted == YES;
}

static struct status encode(struct prompt_maker *maker, const struct encode_args *args,
                            struct prompt *out)
{
    struct status status;

    if (args->size > PROMPT_MAX_TEXT_BYTES)
        return status_error(STATUS_NO_SPACE, "the prompt has %zu bytes, the limit is %d",
                            args->size, PROMPT_MAX_TEXT_BYTES);
    maker->ids.num_ids = 0;
    status = encoder_encode(maker->encoder, args, &maker->ids);
    if (status.code)
        return status;
    *out = (struct prompt){
        .ids = maker->ids.ids,
        .num_ids = maker->ids.num_ids,
        .text = {.data = (const uint8_t *)args->text, .size = args->size},
    };
    return status_ok();
}

static struct status make_from_text(struct prompt_maker *maker, const struct generate_msg *msg,
                                    struct prompt *out)
{
    return encode(maker,
                  &(struct encode_args){
                      .text = (const char *)msg->text.data,
                      .size = msg->text.size,
                      .parse_special = choose(msg->parse_special, true),
                      .add_special_tokens = choose(msg->add_special_tokens, true),
                  },
                  out);
}

/* A JSON text of the request's as a tree; NULL for an empty text. */
static struct status parse_json(struct bytes text, const char *key, enum json_type type,
                                struct arena *arena, const struct json_value **out)
{
    struct json_value *value = NULL;
    struct status status;

    if (text.size == 0)
        return status_ok();
    if (text.size > PROMPT_MAX_TEXT_BYTES)
        return status_error(STATUS_NO_SPACE, "%s has %zu bytes, the limit is %d", key, text.size,
                            PROMPT_MAX_TEXT_BYTES);
    status = json_parse((const char *)text.data, text.size, arena, &value);
    if (status.code == STATUS_NO_MEMORY)
        return status_error(STATUS_INVALID, "%s takes too much memory: too many values", key);
    if (status.code)
        return status_error(STATUS_INVALID, "%s is no JSON: %s", key, status.msg);
    if (value->type != type)
        return status_error(STATUS_INVALID, "%s must be a JSON %s", key,
                            type == JSON_ARRAY ? "array" : "object");
    *out = value;
    return status_ok();
}

/* What is in it is for the template to judge. But one that finds no content at all fails with
 * words of Jinja's, which help nobody. Calls of tools may stand in its place. */
static struct status check_message(const struct json_value *message, size_t i)
{
    const struct json_value *role = json_get(message, "role");

    if (!role || role->type != JSON_STRING)
        return status_error(STATUS_INVALID, "messages[%zu] must be an object with a role", i);
    if (!json_get(message, "content") && !json_get(message, "tool_calls"))
        return status_error(STATUS_INVALID, "messages[%zu] has no \"content\"", i);
    return status_ok();
}

static struct status parse_messages(struct bytes text, struct arena *arena,
                                    const struct json_value **out)
{
    const struct json_value *messages = NULL;
    struct status status = parse_json(text, "messages", JSON_ARRAY, arena, &messages);

    if (status.code)
        return status;
    if (!messages || messages->num_items == 0)
        return status_error(STATUS_INVALID, "messages must not be empty");
    for (size_t i = 0; i < messages->num_items && !status.code; i++)
        status = check_message(&messages->items[i], i);
    if (!status.code)
        *out = messages;
    return status;
}

static struct status render(const struct prompt_model *model, const struct generate_msg *msg,
                            int64_t now_s, struct arena *arena, struct chat_text *out)
{
    struct chat_args args = {.add_generation_prompt = msg->add_generation_prompt,
                             .join_parts = true};
    time_t now = (time_t)now_s;
    struct status status;

    if (!model->chat)
        return status_error(STATUS_INVALID, "messages: %s", model->chat_status.msg);
    status = parse_messages(msg->messages, arena, &args.messages);
    if (status.code == STATUS_OK)
        status = parse_json(msg->tools, "tools", JSON_ARRAY, arena, &args.tools);
    if (status.code == STATUS_OK)
        status = parse_json(msg->kwargs, "kwargs", JSON_OBJECT, arena, &args.kwargs);
    if (status.code)
        return status;
    localtime_r(&now, &args.now);
    status = chat_template_render(model->chat, &args, arena, out);
    if (status.code == STATUS_NO_SPACE) /* of steps or memory: no length of a prompt to be named */
        status.code = STATUS_INVALID;
    return status_context(status, "messages");
}

/* The template's own text is control: its special tokens count. */
static struct status make_from_messages(struct prompt_maker *maker, const struct generate_msg *msg,
                                        int64_t now_s, struct arena *arena, struct prompt *out)
{
    bool is_data = !choose(msg->parse_special, false);
    struct chat_text chat = {0};
    struct status status = render(maker->model, msg, now_s, arena, &chat);

    if (status.code)
        return status;
    return encode(maker,
                  &(struct encode_args){
                      .text = chat.text,
                      .size = chat.size,
                      .parse_special = true,
                      .add_special_tokens = choose(msg->add_special_tokens, false),
                      .data_ranges = is_data ? chat.ranges : NULL,
                      .num_data_ranges = is_data ? chat.num_ranges : 0,
                  },
                  out);
}

/* The first id that the model does not have, or num_ids. */
static size_t find_foreign(const struct prompt_model *model, const int32_t *ids, size_t num_ids)
{
    int32_t vocab_size = model->info.vocab_size;
    size_t i = 0;

    while (i < num_ids && ids[i] >= 0 && (vocab_size == 0 || ids[i] < vocab_size))
        i++;
    return i;
}

struct status prompt_make(struct prompt_maker *maker, const struct generate_msg *msg, int64_t now_s,
                          struct arena *arena, struct prompt *out)
{
    static const char *const keys[] = {"prompt", "messages", "input_ids"};
    struct status status = status_ok();
    struct prompt prompt = {0};

    if (msg->prompt_kind == PROMPT_IDS)
        prompt = (struct prompt){.ids = msg->input_ids, .num_ids = msg->num_input_ids};
    else if (!maker->encoder)
        status = status_error(STATUS_INVALID,
                              "%s: this model has no tokenizer.json, it takes input_ids only",
                              keys[msg->prompt_kind]);
    else if (msg->prompt_kind == PROMPT_TEXT)
        status = make_from_text(maker, msg, &prompt);
    else
        status = make_from_messages(maker, msg, now_s, arena, &prompt);
    if (status.code)
        return status;
    size_t foreign = find_foreign(maker->model, prompt.ids, prompt.num_ids);
    if (foreign < prompt.num_ids)
        return status_error(STATUS_INVALID, "%s: token %d at place %zu is not below vocab_size %d",
                            keys[msg->prompt_kind], prompt.ids[foreign], foreign,
                            maker->model->info.vocab_size);
    *out = prompt;
    return status_ok();
}

struct status prompt_check(const struct prompt_model *model, const struct generate_msg *msg,
                           const struct prompt *prompt)
{
    static const char *const keys[] = {"prompt", "messages", "input_ids"};
    const struct sampling *sampling = &msg->sampling;
    int32_t max_seq_len = model->info.max_seq_len;
    size_t foreign;

    if (prompt->num_ids == 0)
        return status_error(STATUS_INVALID, "%s must not be empty: there is nothing to go on from",
                            keys[msg->prompt_kind]);
    if (prompt->num_ids > INT32_MAX || (max_seq_len && prompt->num_ids >= (size_t)max_seq_len))
        return status_error(STATUS_NO_SPACE,
                            "%s has %zu tokens; max_seq_len is %d, so at most %d can be answered",
                            keys[msg->prompt_kind], prompt->num_ids, max_seq_len, max_seq_len - 1);
    foreign = find_foreign(model, sampling->stop_token_ids, (size_t)sampling->num_stop_token_ids);
    if (foreign < (size_t)sampling->num_stop_token_ids)
        return status_error(STATUS_INVALID, "stop_token_ids: %d is not below vocab_size %d",
                            sampling->stop_token_ids[foreign], model->info.vocab_size);
    return status_ok();
}
