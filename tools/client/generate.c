/* generate.c - minisgl generate: one request, its text to stdout as it comes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/client/answer.h"
#include "tools/client/commands.h"
#include "tools/client/input.h"
#include "tools/client/request_options.h"

enum { MAX_PROMPT_BYTES = 60 << 20 };

struct settings {
    struct server_choice server;
    struct request_options request;
    const char *messages, *ids;
    bool json, verbose;
    struct option_list rest;
    char *prompt;     /* owned: a file's text */
    int32_t *id_list; /* owned */
};

static const struct option_usage usage = {
    "minisgl generate", "TEXT | --messages FILE.json | --ids 1,2,3 [options]",
    "Continues TEXT (\"-\": stdin, without its last line end), or "
    "answers\na chat, and prints what the model says as it comes. Where no option says otherwise "
    "it\n"
    "takes the likeliest tokens: the model's generation_config.json is for `minisgl chat` alone."};

/* "1,2,3", blanks allowed. */
static struct status parse_ids(const char *text, struct settings *s, size_t *out_num)
{
    const char *at = text;
    size_t num = 0;

    s->id_list = malloc((strlen(text) / 2 + 1) * sizeof(*s->id_list));
    if (!s->id_list)
        return status_error(STATUS_NO_MEMORY, "no memory for the ids");
    while (*at) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT32_MAX)
            return status_error(STATUS_INVALID, "--ids takes numbers of tokens, not '%.20s'", at);
        s->id_list[num++] = (int32_t)id;
        at = end + strspn(end, " \t\n");
        if (*at && *at++ != ',')
            return status_error(STATUS_INVALID, "--ids takes numbers with commas between them");
        if (!*at && at[-1] == ',')
            return status_error(STATUS_INVALID, "--ids ends with a comma");
    }
    *out_num = num;
    return status_ok();
}

/* The server, too, says what is wrong in a text, but not whose it is. */
static struct status read_messages(struct settings *s, struct generate_msg *msg)
{
    struct json_value *value;
    struct arena arena;
    struct status status =
        input_read(s->messages, MAX_PROMPT_BYTES, &s->prompt, &msg->messages.size);

    if (status.code)
        return status;
    msg->messages.data = (const uint8_t *)s->prompt;
    arena_init(&arena, 0, 0);
    status = json_parse(s->prompt, msg->messages.size, &arena, &value);
    arena_deinit(&arena);
    return status_context(status, strcmp(s->messages, "-") == 0 ? "stdin" : s->messages);
}

static struct status make_prompt(struct settings *s, struct generate_msg *msg)
{
    size_t num_given = s->rest.num_items + (s->messages != NULL) + (s->ids != NULL);
    struct status status = status_ok();

    if (num_given != 1)
        return status_error(STATUS_INVALID,
                            "exactly one of TEXT, --messages and --ids must be given, not %zu",
                            num_given);
    if (s->ids) {
        msg->prompt_kind = PROMPT_IDS;
        status = parse_ids(s->ids, s, &msg->num_input_ids);
        msg->input_ids = s->id_list;
    } else if (s->messages) {
        msg->prompt_kind = PROMPT_MESSAGES;
        status = read_messages(s, msg);
    } else if (strcmp(s->rest.items[0], "-") == 0) {
        status = input_read("-", MAX_PROMPT_BYTES, &s->prompt, &msg->text.size);
        msg->text.data = (const uint8_t *)s->prompt;
        /* That of `echo`: for a model it would be a part of the text. */
        if (!status.code && msg->text.size && s->prompt[msg->text.size - 1] == '\n')
            msg->text.size--;
    } else {
        msg->text = (struct bytes){(const uint8_t *)s->rest.items[0], strlen(s->rest.items[0])};
    }
    return status;
}

/* The option that is meant by a key of the protocol. */
static const char *option_of(const struct answer *answer)
{
    return strstr(answer->message, "takes input_ids only") ? " (--ids)" : "";
}

/* Whether ids are all that the model answers with, as far as that can be known. */
static bool is_without_text(struct client *client)
{
    struct json_value *info = NULL;
    struct arena arena;

    arena_init(&arena, 0, 0);
    struct status status = command_ask_info(client, &arena, &info);
    const struct json_value *has = status.code ? NULL : json_get(info, "has_tokenizer");
    bool is_without = has && has->type == JSON_BOOL && !has->boolean;
    arena_deinit(&arena);
    return is_without;
}

/* In place of the text of a model that has no tokenizer. */
static void print_ids(const struct answer *answer)
{
    for (size_t i = 0; i < answer->num_ids; i++)
        printf("%s%d", i ? " " : "", answer->ids[i]);
}

static int finish(const struct settings *s, struct client *client, const struct answer *answer)
{
    struct json_writer writer = {0};

    if (!s->json && s->ids && !answer->text_size && !answer->error && is_without_text(client))
        print_ids(answer);
    if (s->json) {
        answer_write(answer, NULL, true, &writer);
        printf("%s\n", writer.data);
        json_writer_deinit(&writer);
    } else if (isatty(STDOUT_FILENO) &&
               (answer->text_size == 0 || answer->text[answer->text_size - 1] != '\n')) {
        printf("\n");
    }
    if (answer->error)
        fprintf(stderr, "minisgl: %s: %s%s\n", error_code_name(answer->error), answer->message,
                option_of(answer));
    else if (answer->finish == FINISH_ABORT)
        fprintf(stderr, "minisgl: the request was aborted\n");
    if (fflush(stdout) != 0)
        return command_fail(status_error(STATUS_IO, "stdout cannot be written"));
    return answer->error || answer->finish == FINISH_ABORT ? EXIT_FAILED : EXIT_OK;
}

static int generate(struct settings *s)
{
    struct generate_msg msg = client_generate_defaults();
    struct answer answer = {.is_announced = s->verbose};
    struct client *client = NULL;
    uint64_t call = 0;
    int exit_code = EXIT_FAILED;
    struct status status = make_prompt(s, &msg);

    if (!status.code)
        status = request_options_apply(&s->request, &msg);
    if (status.code) {
        bool is_usage = status.code == STATUS_INVALID;
        fprintf(stderr, "minisgl generate: %s%s\n", status.msg, is_usage ? " (try --help)" : "");
        return is_usage ? EXIT_USAGE : EXIT_FAILED;
    }
    msg.want_ids = s->json || s->ids; /* a model without tokenizer takes --ids alone */
    status = command_connect(&s->server, NULL, &client);
    if (!status.code)
        status = client_generate(client, &msg, NULL, &call);
    if (status.code)
        exit_code = command_fail(status);
    else if (answer_follow(&answer, client, call, s->json ? NULL : stdout))
        exit_code = finish(s, client, &answer);
    else
        fprintf(stderr, "\nminisgl: interrupted, and the request aborted (uid=%llu)\n",
                (unsigned long long)answer.uid);
    client_close(&client);
    answer_deinit(&answer);
    return exit_code;
}

int command_generate(int argc, char **argv)
{
    struct settings s = {.request = REQUEST_OPTIONS_NONE};
    const struct option_spec specs[] = {
        option_header("Prompt"),
        option_string("messages", &s.messages, "FILE",
                      "a chat: a JSON array of {\"role\", \"content\"}; \"-\": stdin"),
        option_string(
            "ids", &s.ids, "1,2,3",
            "the prompt as tokens; a model that has no tokenizer answers\nwith tokens, too"),
        REQUEST_OPTION_SPECS(&s.request, ""),
        option_header("Output"),
        option_flag("json", &s.json, "one JSON object at the end instead of text"),
        option_flag("verbose", &s.verbose,
                    "say the request's uid on stderr once it has one: for `minisgl abort`"),
        SERVER_OPTION_SPECS(&s.server),
        {0},
    };
    int exit_code;

    if (!command_parse(argc, argv, &usage, specs, &s.server, &s.rest, &exit_code))
        exit_code = generate(&s);
    request_options_deinit(&s.request);
    option_list_deinit(&s.rest);
    free(s.prompt);
    free(s.id_list);
    return exit_code;
}
