/*
 * rid_ring.h - the uids of the last requests by their clients' names, so that a client may abort
 * one before it has heard its uid.
 *
 * It remembers a fixed number of names and forgets the oldest: the tokenizer is not told when a
 * request ends. Of two equal names the later one counts.
 */
#ifndef TOKENIZER_PROC_RID_RING_H
#define TOKENIZER_PROC_RID_RING_H

#include "common/status.h"
#include "proto/messages.h"

enum { RID_RING_SIZE = 16384 };

struct rid_ring; /* opaque */

MUST_CHECK struct status rid_ring_create(struct rid_ring **out);
void rid_ring_destroy(struct rid_ring **ring);

/* rid: at most MAX_RID_BYTES. */
void rid_ring_put(struct rid_ring *ring, const struct client_id *client, struct bytes rid,
                  uint64_t uid);

/* The uid, or 0 when the name is not (or no longer) known. */
uint64_t rid_ring_find(const struct rid_ring *ring, const struct client_id *client,
                       struct bytes rid);

#endif
