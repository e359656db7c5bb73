/*
 * outputs.h - what the core has decided and nobody has fetched yet: rows for the detokenizer and
 * rejections, until they are cleared.
 *
 * Room for a terminal of each request is made when the request is taken, and room for a step's rows
 * when it is formed; so putting a row in cannot fail.
 */
#ifndef SCHEDULER_PROC_OUTPUTS_H
#define SCHEDULER_PROC_OUTPUTS_H

#include "common/arena.h"
#include "scheduler_proc/req.h"

struct outputs {
    struct token_row *rows; /* owned, [max_rows] */
    int32_t num_rows, max_rows;
    struct rejected_msg *rejections; /* owned, [max_rejections] */
    int32_t num_rejections, max_rejections;
    struct arena arena; /* texts and reply_to of the rejections */
    struct req *ended;  /* owned: retired requests by next; rows may still borrow their reply_to */
};

/* A zero is an empty one, and deinit takes it. max_rows is room at first. */
MUST_CHECK struct status outputs_init(struct outputs *outputs, int32_t max_rows);
void outputs_deinit(struct outputs *outputs);

/* Makes room for num_rows more; false when there is no memory. */
bool outputs_reserve(struct outputs *outputs, int32_t num_rows);

/* Room was reserved. The first row of a request carries its reply_to and counts. */
void outputs_add_row(struct outputs *outputs, struct req *req, int32_t token,
                     enum finish_reason finish, enum error_code error);

/* Copies what it needs. Without memory it is lost: a host that has no 100 bytes is not saved here.
 */
void outputs_add_rejection(struct outputs *outputs, const struct request_msg *request,
                           enum error_code code, const char *message);

/* Takes over a request that is in no table and list; it is destroyed at the next clear. */
void outputs_add_ended(struct outputs *outputs, struct req **req);

void outputs_clear(struct outputs *outputs);

#endif
