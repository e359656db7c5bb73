/* chat.c - minisgl chat: a conversation, the whole of it sent with each turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/client/answer.h"
#include "tools/client/chat_history.h"
#include "tools/client/commands.h"
#include "tools/client/generation_config.h"
#include "tools/client/line_editor.h"

struct chat {
    struct server_choice choice;
    struct request_options request;
    const char *system;
    struct server server;
    struct client *client;      /* owned */
    struct line_editor *editor; /* owned */
    struct chat_history history;
    bool failed; /* an answer ended with an error: the exit code when nobody sits there to see */
};

static const struct option_usage usage = {
    "minisgl chat", "[options]",
    "Talks with the model. Sampling is as the model's generation_config.json says (\"the "
    "model's\"\nbelow), where no option says otherwise. Ctrl-C ends an answer, Ctrl-D the "
    "conversation."};

static const char help[] =
    "/reset  forget the conversation\n"
    "/quit   leave (or Ctrl-D)\n"
    "/help   this\n"
    "Ctrl-C ends an answer. Several lines pasted together are one message.\n";

/* What is no answer goes to stderr, so that a pipe gets answers alone. */
static void say(const char *text)
{
    fflush(stdout);
    fputs(text, stderr);
}

static void start_over(struct chat *chat)
{
    chat_history_clear(&chat->history);
    if (chat->system)
        chat_history_add(&chat->history, "system", chat->system, strlen(chat->system));
}

static void report(struct chat *chat, const struct answer *answer, bool ended)
{
    if (answer->text_size == 0 || answer->text[answer->text_size - 1] != '\n')
        printf("\n");
    fflush(stdout);
    if (!ended)
        say("(interrupted)\n");
    else if (answer->error)
        fprintf(stderr, "minisgl: %s: %s\n", error_code_name(answer->error), answer->message);
    else if (answer->finish == FINISH_LENGTH)
        say("(cut: it has reached --max-tokens, or the model's length)\n");
    else if (answer->finish == FINISH_ABORT)
        say("(aborted)\n");
    chat->failed = chat->failed || answer->error;
}

static struct status is_gone(const struct chat *chat)
{
    if (*chat->server.name)
        return status_error(STATUS_GONE,
                            "the server '%.40s' is gone: tools/launch.sh starts one again",
                            chat->server.name);
    return status_error(STATUS_GONE, "the server of %.80s does not answer any more",
                        chat->choice.endpoints);
}

/* One turn. An answer that failed is forgotten together with its question. */
static struct status take_turn(struct chat *chat, const char *text, size_t size)
{
    struct generate_msg msg = client_generate_defaults();
    struct answer answer = {0};
    size_t before = chat->history.text.size;
    uint64_t call;
    struct status status = request_options_apply(&chat->request, &msg);

    if (status.code)
        return status;
    chat_history_add(&chat->history, "user", text, size);
    msg.prompt_kind = PROMPT_MESSAGES;
    msg.messages = chat_history_messages(&chat->history);
    if (!server_is_running(&chat->server))
        status = status_error(STATUS_GONE, "it has been stopped");
    else
        status = client_hello(chat->client); /* a person may have thought for an hour */
    if (!status.code)
        status = client_generate(chat->client, &msg, NULL, &call);
    if (status.code) {
        chat_history_cut(&chat->history, before);
        if (status.code == STATUS_GONE)
            return is_gone(chat);
        return status.code == STATUS_INTERRUPTED ? status_ok() : status;
    }
    bool ended = answer_follow(&answer, chat->client, call, stdout);
    report(chat, &answer, ended);
    if (answer.error)
        chat_history_cut(&chat->history, before);
    else
        chat_history_add(&chat->history, "assistant", answer.text ? answer.text : "",
                         answer.text_size);
    bool is_lost = answer.error == ERROR_SERVER_LOST;
    answer_deinit(&answer);
    return is_lost ? is_gone(chat) : status_ok();
}

/* false: /quit. */
static bool take_command(struct chat *chat, const char *line)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/reset") == 0) {
        start_over(chat);
        say("(forgotten)\n");
    } else if (strcmp(line, "/help") == 0) {
        say(help);
    } else {
        fprintf(stderr, "unknown command '%.40s': /help lists them\n", line);
    }
    return true;
}

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r\n")] == '\0';
}

static struct status talk(struct chat *chat)
{
    struct status status = status_ok();
    const char *line = NULL;
    size_t size = 0;
    bool is_quit = false;

    if (line_editor_is_terminal(chat->editor))
        fprintf(stderr, "%s\n/help lists what there is beside talking.\n", chat->server.model);
    while (!status.code && !command_terminated()) {
        command_resume();
        enum line_result result = line_editor_read(chat->editor, &line, &size);
        if (result == LINE_END)
            break;
        if (result == LINE_INTERRUPTED) {
            say(size || command_terminated() ? "\n" : "\n(Ctrl-D leaves)\n");
            continue;
        }
        if (is_blank(line))
            continue;
        if (line[0] == '/' && !memchr(line, '\n', size)) {
            is_quit = !take_command(chat, line);
            if (is_quit)
                break;
            continue;
        }
        command_resume();
        status = take_turn(chat, line, size);
    }
    if (line_editor_is_terminal(chat->editor) && !is_quit && !status.code)
        say("\n"); /* the prompt stands there */
    return status;
}

/* A server that was given by its endpoints says itself which model it serves. */
static struct status learn_model(struct chat *chat)
{
    struct json_value *info = NULL;
    struct arena arena;

    if (*chat->server.model)
        return status_ok();
    arena_init(&arena, 0, 0);
    struct status status = command_ask_info(chat->client, &arena, &info);
    const struct json_value *model = status.code ? NULL : json_get(info, "model");
    if (model && model->type == JSON_STRING)
        snprintf(chat->server.model, sizeof(chat->server.model), "%s", model->text.data);
    arena_deinit(&arena);
    return status;
}

/* As the model wants to be sampled; said when that is not known here. */
static struct status set_sampling(struct chat *chat)
{
    struct status status = generation_config_apply(chat->server.model, &chat->request);

    if (status.code != STATUS_NOT_FOUND)
        return status;
    if (!chat->choice.endpoints) /* a model without that file: its default */
        return status_ok();
    fprintf(stderr, "%s has no generation_config.json here: what no option says is off\n",
            chat->server.model);
    return status_ok();
}

int command_chat(int argc, char **argv)
{
    struct chat chat = {.request = REQUEST_OPTIONS_NONE};
    const struct option_spec specs[] = {
        option_string("system", &chat.system, "TEXT",
                      "what the model is told before the conversation"),
        REQUEST_OPTION_SPECS(&chat.request, "the model's, else "),
        SERVER_OPTION_SPECS(&chat.choice),
        {0},
    };
    struct status status;
    int exit_code;

    if (command_parse(argc, argv, &usage, specs, &chat.choice, NULL, &exit_code))
        goto out;
    status = command_connect(&chat.choice, &chat.server, &chat.client);
    if (!status.code)
        status = line_editor_open("> ", &chat.editor);
    if (!status.code)
        status = learn_model(&chat);
    if (!status.code)
        status = set_sampling(&chat);
    if (!status.code) {
        start_over(&chat);
        status = talk(&chat);
    }
    exit_code = status.code ? command_fail(status) : EXIT_OK;
    if (chat.failed && !(chat.editor && line_editor_is_terminal(chat.editor)))
        exit_code = EXIT_FAILED;
out:
    line_editor_close(&chat.editor);
    client_close(&chat.client);
    chat_history_deinit(&chat.history);
    request_options_deinit(&chat.request);
    return exit_code;
}
