/*
 * req.h - one request from its arrival to its end, and lists of requests.
 *
 * Lengths, at every moment of an unfinished request:
 *
 *     0 <= cached_len < device_len <= max_device_len,  num_ids == device_len - (launched,
 *     unprocessed rows of it that sample),  valid_len <= cached_len
 *
 * Pages of its row: [0, handle.num_pages) are the prefix cache's, held by the lock of handle; the
 * others up to num_pages are its own.
 * Source: mini-sglang core.py, Req (ChunkedReq there is state REQ_PREFILL here).
 */
#ifndef SCHEDULER_PROC_REQ_H
#define SCHEDULER_PROC_REQ_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "proto/messages.h"
#include "scheduler_proc/prefix_cache.h"

enum { TABLE_IDX_NONE = -1 };

enum req_state {
    REQ_QUEUED,   /* in the queue: no row, no page */
    REQ_PREFILL,  /* has a row; a part of the prompt is not launched yet */
    REQ_DECODE,   /* each step can add a token */
    REQ_LAUNCHED, /* all that it may produce is launched */
    REQ_FINISHED, /* its terminal is out; waits for its launched rows */
};

struct client_entry;
struct req_list;

struct req {
    uint64_t uid;
    enum req_state state;
    int32_t table_idx; /* or TABLE_IDX_NONE */
    int32_t inflight;  /* launched steps that hold it and are not processed */

    int32_t prompt_len;
    int32_t num_ids;        /* input_ids known to the host */
    int32_t cached_len;     /* positions whose K and V exist or are being produced */
    int32_t device_len;     /* tokens whose id exists on the device or is being produced */
    int32_t max_device_len; /* prompt_len + max_tokens */
    int32_t valid_len;      /* positions whose steps have been processed without NaN */
    bool tainted;           /* a step had NaN: valid_len stays */

    int32_t num_pages;          /* of its row, in use */
    int32_t synced_pages;       /* of those, leading ones that the device's page table has */
    int32_t reserved_pages;     /* most that num_pages will be */
    int32_t *pages;             /* borrowed from the scheduler: the host's row of the page table */
    struct cache_handle handle; /* locked */

    int32_t num_passed;        /* times that later ones were admitted while it was the first */
    bool has_output;           /* a row of it has been put out */
    int32_t num_cached_tokens; /* prompt tokens that were found and not computed */
    struct sampling sampling;  /* stop_token_ids lie in this allocation, as all that follows */
    int32_t *input_ids;        /* [max_device_len] */
    struct bytes reply_to;

    struct req *prev, *next; /* of the list that its state names */
    struct req *uid_next;    /* chain of the uid table */
    struct client_entry *client;
    struct req *client_prev, *client_next; /* of its client's list */
};

/* A copy of all of request in one allocation, with max_tokens in place of its own. */
MUST_CHECK struct status req_create(const struct request_msg *request, int32_t max_tokens,
                                    struct req **out);
void req_destroy(struct req **req);

static inline bool req_is_finished(const struct req *req)
{
    return req->state == REQ_FINISHED;
}

/* Requests in order of arrival. A zero is an empty list. */
struct req_list {
    struct req *first, *last; /* borrowed */
    int32_t num_reqs;
};

void req_list_append(struct req_list *list, struct req *req);
void req_list_remove(struct req_list *list, struct req *req);

#endif
