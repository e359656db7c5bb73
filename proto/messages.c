/* messages.c - the names of codes and reasons, as they stand on the wire and in people's output. */
#include "proto/messages.h"

#include <string.h>

static const char *const error_names[] = {
    [ERROR_NONE] = "",
    [ERROR_INVALID_REQUEST] = "invalid_request",
    [ERROR_TOO_LONG] = "too_long",
    [ERROR_OVERLOADED] = "overloaded",
    [ERROR_ABORTED] = "aborted",
    [ERROR_SLOW_CLIENT] = "slow_client",
    [ERROR_SERVER_LOST] = "server_lost",
    [ERROR_SHUTTING_DOWN] = "shutting_down",
    [ERROR_INTERNAL] = "internal",
};

static const char *const finish_names[] = {
    [FINISH_NONE] = "",       [FINISH_STOP] = "stop",   [FINISH_LENGTH] = "length",
    [FINISH_ABORT] = "abort", [FINISH_ERROR] = "error",
};

enum {
    NUM_ERRORS = sizeof(error_names) / sizeof(error_names[0]),
    NUM_FINISHES = sizeof(finish_names) / sizeof(finish_names[0]),
};

/* The index of a name, or -1. Index 0 is "none": it has no name that a peer may send. */
static int find_name(const char *const *names, int num_names, const char *text, size_t size)
{
    for (int i = 1; i < num_names; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], text, size) == 0)
            return i;
    }
    return -1;
}

const char *error_code_name(enum error_code code)
{
    return (unsigned)code < NUM_ERRORS ? error_names[code] : "internal";
}

const char *finish_reason_name(enum finish_reason reason)
{
    return (unsigned)reason < NUM_FINISHES ? finish_names[reason] : "error";
}

bool error_code_parse(const char *text, size_t size, enum error_code *out)
{
    int code = find_name(error_names, NUM_ERRORS, text, size);

    if (code < 0)
        return false;
    *out = (enum error_code)code;
    return true;
}

bool finish_reason_parse(const char *text, size_t size, enum finish_reason *out)
{
    int reason = find_name(finish_names, NUM_FINISHES, text, size);

    if (reason < 0)
        return false;
    *out = (enum finish_reason)reason;
    return true;
}
