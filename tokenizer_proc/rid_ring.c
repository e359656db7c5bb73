/*
 * rid_ring.c - see rid_ring.h.
 *
 *   buckets[hash] -> entry -> older entry -> NONE      chains through the ring
 *   next: the entry that is overwritten next, the oldest once the ring is full
 */
#include "tokenizer_proc/rid_ring.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { NUM_BUCKETS = 2 * RID_RING_SIZE, NONE = -1 };

struct entry {
    struct client_id client;
    uint64_t uid;  /* 0: not used */
    int32_t older; /* in the same bucket */
    uint32_t bucket;
    uint8_t rid_size;
    uint8_t rid[MAX_RID_BYTES];
};

struct rid_ring {
    int32_t buckets[NUM_BUCKETS];
    struct entry entries[RID_RING_SIZE];
    int32_t next;
};

static uint32_t bucket_of(const struct client_id *client, struct bytes rid)
{
    uint64_t hash = hash_bytes(hash_start, client->bytes, sizeof(client->bytes));

    hash = hash_bytes(hash, rid.data, rid.size);
    return (uint32_t)((hash ^ hash >> 32) % NUM_BUCKETS);
}

struct status rid_ring_create(struct rid_ring **out)
{
    struct rid_ring *ring = calloc(1, sizeof(*ring));

    if (!ring)
        return status_error(STATUS_NO_MEMORY, "no memory for the names of requests");
    for (size_t i = 0; i < NUM_BUCKETS; i++)
        ring->buckets[i] = NONE;
    *out = ring;
    return status_ok();
}

void rid_ring_destroy(struct rid_ring **ring)
{
    free(*ring);
    *ring = NULL;
}

/* Takes an entry out of its bucket's chain. */
static void forget(struct rid_ring *ring, int32_t index)
{
    int32_t *link = &ring->buckets[ring->entries[index].bucket];

    while (*link != index)
        link = &ring->entries[*link].older;
    *link = ring->entries[index].older;
}

void rid_ring_put(struct rid_ring *ring, const struct client_id *client, struct bytes rid,
                  uint64_t uid)
{
    int32_t index = ring->next;
    struct entry *entry = &ring->entries[index];

    if (entry->uid)
        forget(ring, index);
    entry->client = *client;
    entry->uid = uid;
    entry->rid_size = (uint8_t)rid.size;
    memcpy(entry->rid, rid.data, rid.size);
    entry->bucket = bucket_of(client, rid);
    entry->older = ring->buckets[entry->bucket];
    ring->buckets[entry->bucket] = index;
    ring->next = (index + 1) % RID_RING_SIZE;
}

uint64_t rid_ring_find(const struct rid_ring *ring, const struct client_id *client,
                       struct bytes rid)
{
    int32_t index = ring->buckets[bucket_of(client, rid)];

    for (; index != NONE; index = ring->entries[index].older) {
        const struct entry *entry = &ring->entries[index];
        if (entry->rid_size == rid.size && memcmp(entry->rid, rid.data, rid.size) == 0 &&
            memcmp(entry->client.bytes, client->bytes, sizeof(client->bytes)) == 0)
            return entry->uid;
    }
    return 0;
}
