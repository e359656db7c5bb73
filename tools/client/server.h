/*
 * server.h - finds a running server: by name, by its two endpoints, or the one that is running.
 *
 * A server's directory is PARENT/NAME, where PARENT is $MINISGL_RUN_DIR, else
 * $XDG_RUNTIME_DIR/minisgl, else /tmp/minisgl-UID. Its run.json holds what is read here.
 */
#ifndef TOOLS_CLIENT_SERVER_H
#define TOOLS_CLIENT_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

enum { SERVER_TEXT = 256 };

struct server {
    char name[SERVER_TEXT]; /* "" when given by its endpoints */
    uint64_t run;
    int64_t pid;      /* of the launcher; 0: not known */
    char model[1024]; /* its directory; "" when not known */
    /* "" for those that are not known */
    char tokenizer[SERVER_TEXT], detokenizer[SERVER_TEXT];
    char tokenizer_control[SERVER_TEXT], scheduler_control[SERVER_TEXT];
    char detokenizer_control[SERVER_TEXT];
};

/* How the user named it; both NULL: "default", or else the only one that is running. */
struct server_choice {
    const char *name;
    const char *endpoints;  /* "TOKENIZER,DETOKENIZER", such as two of tcp:// */
    const char *curve_keys; /* see link.h; or NULL */
};

/* Whether its launcher lives, as far as that can be known. */
bool server_is_running(const struct server *server);

/* STATUS_INVALID: malformed, or options that do not go together. */
MUST_CHECK struct status server_choice_check(const struct server_choice *choice);

/* Of a choice that has been checked. STATUS_NOT_FOUND, saying where it was looked for, and where
 * the logs of one that has ended are, if that is the one that was named or it failed;
 * STATUS_INVALID when several are running, none is named, and none of them is "default". */
MUST_CHECK struct status server_find(const struct server_choice *choice, struct server *out);

#endif
