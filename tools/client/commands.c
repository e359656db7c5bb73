/* commands.c - see commands.h. */
#include "tools/client/commands.h"

#include <signal.h>
#include <stdio.h>

#include "common/clock.h"

static volatile sig_atomic_t is_interrupted, is_terminated;

static void on_signal(int number)
{
    is_interrupted = 1;
    if (number != SIGINT)
        is_terminated = 1;
}

void command_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: reads and polls end */

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool command_interrupted(void)
{
    return is_interrupted != 0;
}

bool command_terminated(void)
{
    return is_terminated != 0;
}

void command_resume(void)
{
    if (!is_terminated)
        is_interrupted = 0;
}

int command_fail(struct status status)
{
    fprintf(stderr, "minisgl: %s\n", status.msg);
    return EXIT_FAILED;
}

bool command_parse(int argc, char **argv, const struct option_usage *usage,
                   const struct option_spec *specs, const struct server_choice *choice,
                   struct option_list *rest, int *out_exit)
{
    bool done = false;
    struct status status = options_parse(argc, argv, usage, specs, rest, &done);

    if (!status.code && !done)
        status = server_choice_check(choice);
    return options_end_here(usage->program, &status, done, out_exit);
}

struct status command_connect(const struct server_choice *choice, struct server *server,
                              struct client **out)
{
    struct server found;
    struct status status = server_find(choice, &found);

    if (status.code)
        return status;
    if (server)
        *server = found;
    command_catch_signals();
    return client_open(&(struct client_args){.tokenizer = found.tokenizer,
                                             .curve_keys = choice->curve_keys,
                                             .detokenizer = found.detokenizer,
                                             .is_interrupted = command_interrupted},
                       out);
}

struct status command_ask_info(struct client *client, struct arena *arena, struct json_value **out)
{
    struct client_event event;
    uint64_t call;
    struct status status = client_info(client, NULL, &call);

    if (status.code)
        return status;
    if (!client_next(client, -1, &event) || event.kind != CLIENT_RESULT)
        return status_error(STATUS_GONE, "the tokenizer does not answer");
    return json_parse((const char *)event.result->info.data, event.result->info.size, arena, out);
}

void command_abort_call(struct client *client, uint64_t call)
{
    int64_t deadline_ns = clock_now_ns() + 2000000000, left_ns;
    struct client_event event;
    struct status status = client_abort(client, call);

    command_resume(); /* a second Ctrl-C ends the wait */
    while (!status.code && (left_ns = deadline_ns - clock_now_ns()) > 0) {
        if (!client_next(client, (int)(left_ns / 1000000) + 1, &event))
            break;
        if (event.call == call && event.is_last)
            break;
    }
}
