/* status.c - minisgl status: what the three processes of a server say about themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "tools/client/commands.h"
#include "tools/client/control.h"

enum { NUM_PROCESSES = 3, ANSWER_TIMEOUT_MS = 3000, CHECK_TIMEOUT_MS = 60000 };

static const char *const process_names[NUM_PROCESSES] = {"tokenizer", "scheduler", "detokenizer"};

static const struct option_usage usage = {"minisgl status", "[options]",
                                          "Prints what a running server is doing. Exit code 1 when "
                                          "one of its processes does not answer."};

/* The answer of one process, as text and as a tree; an empty object when it does not say more. */
struct report {
    char *text; /* owned */
    struct json_value *value;
    struct status status;
};

static void ask(const char *endpoint, struct arena *arena, struct report *report)
{
    const struct control_msg control = {.command = CONTROL_STATS};

    report->status = control_ask(endpoint, &control, ANSWER_TIMEOUT_MS, &report->text);
    if (!report->status.code)
        report->status = json_parse(report->text, strlen(report->text), arena, &report->value);
}

/* The scheduler walks all of its tables, and says what is broken. */
static struct status ask_check(const char *endpoint)
{
    const struct control_msg control = {.command = CONTROL_CHECK};
    char *text = NULL;
    struct status status = control_ask(endpoint, &control, CHECK_TIMEOUT_MS, &text);

    free(text);
    return status_context(status, "check");
}

static void write_json(const struct server *server, const struct report *reports)
{
    struct json_writer out = {0};

    json_begin_object(&out);
    json_put_cstring(&out, "name", server->name);
    json_put_uint(&out, "run", server->run);
    json_put_int(&out, "pid", server->pid);
    json_put_cstring(&out, "model", server->model);
    for (int i = 0; i < NUM_PROCESSES; i++) {
        json_key(&out, process_names[i]);
        if (reports[i].value)
            json_write_value(&out, reports[i].value);
        else
            json_null(&out);
    }
    json_end_object(&out);
    printf("%s\n", out.data);
    json_writer_deinit(&out);
}

/* One line per number; what is nested stands behind dots. */
static void print_value(const char *path, const struct json_value *value)
{
    char longer[256];

    if (value->type != JSON_OBJECT) {
        struct json_writer out = {0};
        json_write_value(&out, value);
        printf("  %-32s %s\n", path, out.data);
        json_writer_deinit(&out);
        return;
    }
    for (size_t i = 0; i < value->num_items; i++) {
        int size = snprintf(longer, sizeof(longer), "%s%s%.*s", path, *path ? "." : "",
                            (int)value->keys[i].size, value->keys[i].data);
        if (size > 0 && size < (int)sizeof(longer))
            print_value(longer, &value->items[i]);
    }
}

static void print_text(const struct server *server, const struct report *reports)
{
    printf("server '%s'  pid %lld  model %s\n", server->name, (long long)server->pid,
           server->model);
    for (int i = 0; i < NUM_PROCESSES; i++) {
        printf("%s\n", process_names[i]);
        if (reports[i].value)
            print_value("", reports[i].value);
    }
}

static int show(const struct server_choice *choice, bool json, bool has_check)
{
    struct report reports[NUM_PROCESSES] = {0};
    struct server server;
    struct arena arena;
    int exit_code = EXIT_OK;
    struct status status = server_find(choice, &server);

    if (status.code)
        return command_fail(status);
    arena_init(&arena, 0, 0);
    ask(server.tokenizer_control, &arena, &reports[0]);
    ask(server.scheduler_control, &arena, &reports[1]);
    ask(server.detokenizer_control, &arena, &reports[2]);
    if (json)
        write_json(&server, reports);
    else
        print_text(&server, reports);
    for (int i = 0; i < NUM_PROCESSES; i++) {
        if (reports[i].status.code) {
            fprintf(stderr, "minisgl: %s: %s\n", process_names[i], reports[i].status.msg);
            exit_code = EXIT_FAILED;
        }
        free(reports[i].text);
    }
    if (has_check) {
        status = ask_check(server.scheduler_control);
        if (status.code)
            exit_code = command_fail(status);
        else if (!json)
            printf("check\n  all invariants hold\n");
    }
    arena_deinit(&arena);
    return exit_code;
}

int command_status(int argc, char **argv)
{
    struct server_choice choice = {0};
    bool json = false, has_check = false;
    const struct option_spec specs[] = {
        option_flag("json", &json, "one JSON object"),
        option_flag("check", &has_check,
                    "and has the scheduler check all of its tables, between two steps"),
        SERVER_NAME_SPECS(&choice),
        {0},
    };
    int exit_code;

    if (command_parse(argc, argv, &usage, specs, &choice, NULL, &exit_code))
        return exit_code;
    return show(&choice, json, has_check);
}
