/*
 * answer.h - what came back for one request, put together, and written as a line of `batch`:
 *
 *   {"id", "text", "output_ids", "finish_reason", "usage": {"prompt_tokens", "completion_tokens",
 *    "cached_tokens"}}                                or   {"id", "error": {"code", "message"}}
 *
 * `generate` has "uid" in place of "id": of `batch` two runs of a file give the same lines.
 */
#ifndef TOOLS_CLIENT_ANSWER_H
#define TOOLS_CLIENT_ANSWER_H

#include <stdio.h>

#include "common/json.h"
#include "tools/client/client.h"

struct answer {
    char *text; /* owned */
    size_t text_size, text_capacity;
    int32_t *ids; /* owned */
    size_t num_ids, ids_capacity;
    enum finish_reason finish;
    struct usage usage;
    uint64_t uid;          /* 0: not known */
    bool is_announced;     /* the uid is said on stderr as soon as it is known */
    enum error_code error; /* ERROR_NONE: there is text */
    char message[MAX_ERROR_BYTES + 1];
};

void answer_deinit(struct answer *answer);

/* Adds an event; STATUS_NO_MEMORY makes it an error of code internal. */
void answer_add(struct answer *answer, const struct client_event *event);
/* Takes what comes for the call to its end; writes the text to out as it comes, unless out is NULL.
 * False when it was interrupted: then the call is aborted. */
bool answer_follow(struct answer *answer, struct client *client, uint64_t call, FILE *out);
/* Makes it an error. */
void answer_fail(struct answer *answer, enum error_code code, const char *message);

/* One object. id: a JSON value or NULL for none; has_uid: with the uid, if it is known. */
void answer_write(const struct answer *answer, const struct json_value *id, bool has_uid,
                  struct json_writer *out);

#endif
