/* abort.c - minisgl abort: ends a request of any client by its uid. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/client/commands.h"

static const struct option_usage usage = {
    "minisgl abort", "UID [options]",
    "Ends the request with that number, whoever asked for it. One that has ended is no error.\n"
    "`minisgl generate --verbose` says its uid when it has begun; \"uid\" of generate --json is "
    "it, "
    "too."};

static bool parse_uid(const struct option_list *rest, uint64_t *out)
{
    char *end;

    if (rest->num_items != 1 || rest->items[0][0] < '0' || rest->items[0][0] > '9')
        return false;
    errno = 0;
    unsigned long long uid = strtoull(rest->items[0], &end, 10);
    *out = uid;
    return *end == '\0' && errno == 0 && uid > 0;
}

static int abort_request(const struct server_choice *choice, uint64_t uid)
{
    struct client *client = NULL;
    struct client_event event;
    uint64_t call;
    int exit_code = EXIT_FAILED;
    struct status status = command_connect(choice, NULL, &client);

    if (!status.code)
        status = client_abort_uid(client, uid, NULL, &call);
    if (status.code)
        exit_code = command_fail(status);
    else if (client_next(client, -1, &event) && event.kind == CLIENT_RESULT)
        exit_code = EXIT_OK;
    else
        fprintf(stderr, "minisgl: the server did not answer\n");
    client_close(&client);
    return exit_code;
}

int command_abort(int argc, char **argv)
{
    struct server_choice choice = {0};
    struct option_list rest = {0};
    const struct option_spec specs[] = {SERVER_OPTION_SPECS(&choice), {0}};
    uint64_t uid = 0;
    int exit_code;

    if (!command_parse(argc, argv, &usage, specs, &choice, &rest, &exit_code)) {
        if (parse_uid(&rest, &uid)) {
            exit_code = abort_request(&choice, uid);
        } else {
            fprintf(stderr, "minisgl abort: UID is a number above 0 (try --help)\n");
            exit_code = EXIT_USAGE;
        }
    }
    option_list_deinit(&rest);
    return exit_code;
}
