/* tokenize.c - minisgl tokenize: the token ids of a text, in the form that --ids takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client/commands.h"
#include "tools/client/input.h"

enum { MAX_TEXT_BYTES = 60 << 20 };

struct settings {
    struct server_choice server;
    bool json, plain, no_special;
    struct option_list rest;
};

static const struct option_usage usage = {
    "minisgl tokenize", "TEXT [options]",
    "Prints the ids of the tokens of TEXT (\"-\": stdin) with commas between them."};

static void print_ids(const struct result_msg *result, bool json)
{
    printf(json ? "{\"ids\":[" : "");
    for (size_t i = 0; i < result->num_ids; i++)
        printf("%s%d", i ? "," : "", result->ids[i]);
    printf(json ? "]}\n" : "\n");
}

static int take_answer(struct client *client, bool json)
{
    struct client_event event;

    while (client_next(client, -1, &event)) {
        if (event.kind == CLIENT_RESULT) {
            print_ids(event.result, json);
            return EXIT_OK;
        }
        if (event.kind == CLIENT_ERROR) {
            fprintf(stderr, "minisgl: %s: %.*s\n", error_code_name(event.error),
                    (int)event.error_message.size, (const char *)event.error_message.data);
            return EXIT_FAILED;
        }
    }
    return EXIT_FAILED;
}

static int tokenize(const struct settings *s)
{
    struct generate_msg msg = client_generate_defaults();
    struct client *client = NULL;
    char *input = NULL;
    uint64_t call;
    int exit_code;
    struct status status = status_ok();

    msg.text = (struct bytes){(const uint8_t *)s->rest.items[0], strlen(s->rest.items[0])};
    if (strcmp(s->rest.items[0], "-") == 0) {
        status = input_read("-", MAX_TEXT_BYTES, &input, &msg.text.size);
        msg.text.data = (const uint8_t *)input;
    }
    if (s->plain)
        msg.parse_special = NO;
    if (s->no_special)
        msg.add_special_tokens = NO;
    if (!status.code)
        status = command_connect(&s->server, NULL, &client);
    if (!status.code)
        status = client_ask(client, MESSAGE_TOKENIZE, &msg, NULL, &call);
    exit_code = status.code ? command_fail(status) : take_answer(client, s->json);
    client_close(&client);
    free(input);
    return exit_code;
}

int command_tokenize(int argc, char **argv)
{
    struct settings s = {0};
    const struct option_spec specs[] = {
        option_flag("json", &s.json, "{\"ids\": [...]} instead"),
        option_flag("plain", &s.plain, "special tokens in TEXT are text like any other"),
        option_flag("no-special", &s.no_special,
                    "add no token of the tokenizer's own, such as BOS"),
        SERVER_OPTION_SPECS(&s.server),
        {0},
    };
    int exit_code;

    if (!command_parse(argc, argv, &usage, specs, &s.server, &s.rest, &exit_code)) {
        if (s.rest.num_items == 1) {
            exit_code = tokenize(&s);
        } else {
            fprintf(stderr, "minisgl tokenize: give one TEXT (try --help)\n");
            exit_code = EXIT_USAGE;
        }
    }
    option_list_deinit(&s.rest);
    return exit_code;
}
