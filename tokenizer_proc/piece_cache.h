/*
 * piece_cache.h - the tokens of pieces seen lately: text is made of few words.
 *
 * Each short piece has one place, by its hash, and a newer one takes it over. So the size is fixed,
 * and the worst that a text can do is to gain nothing.
 */
#ifndef TOKENIZER_PROC_PIECE_CACHE_H
#define TOKENIZER_PROC_PIECE_CACHE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"

enum {
    PIECE_CACHE_ENTRIES = 1 << 15, /* 2 MiB */
    PIECE_MAX_SIZE = 23,           /* bytes */
    PIECE_MAX_IDS = 9,
};

/* A cache line. The key: the piece, zeros, its size in the last byte; no piece is the all-zero key.
 */
struct piece_entry {
    uint64_t key[3];
    uint32_t num_ids;
    int32_t ids[PIECE_MAX_IDS];
};

struct piece_cache {
    struct piece_entry *entries; /* owned, [PIECE_CACHE_ENTRIES] */
};

MUST_CHECK static inline struct status piece_cache_init(struct piece_cache *cache)
{
    cache->entries = aligned_alloc(64, PIECE_CACHE_ENTRIES * sizeof(*cache->entries));
    if (!cache->entries)
        return status_error(STATUS_NO_MEMORY, "no memory for a piece cache");
    memset(cache->entries, 0, PIECE_CACHE_ENTRIES * sizeof(*cache->entries));
    return status_ok();
}

static inline void piece_cache_deinit(struct piece_cache *cache)
{
    free(cache->entries);
    cache->entries = NULL;
}

/* The key of a piece of 1 to PIECE_MAX_SIZE bytes; kind (0 or 1) keeps two sorts of pieces apart.
 * left: bytes that may be read from the piece on. */
static inline void piece_key(const uint8_t *piece, size_t size, size_t left, unsigned kind,
                             uint64_t key[3])
{
    if (size <= 8 && left >= 8) {
        memcpy(key, piece, 8);
        key[0] &= ~(uint64_t)0 >> (64 - 8 * size);
        key[1] = key[2] = 0;
    } else {
        key[0] = key[1] = key[2] = 0;
        memcpy(key, piece, size);
    }
    key[2] |= (uint64_t)(size << 1 | kind) << 56;
}

/* The place of a key. */
static inline struct piece_entry *piece_cache_place(const struct piece_cache *cache,
                                                    const uint64_t key[3])
{
    uint64_t hash = (key[0] ^ key[2]) * 0x9E3779B97F4A7C15u ^ key[1] * 0xC2B2AE3D27D4EB4Fu;

    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93u;
    return &cache->entries[hash >> 49];
}

static inline int piece_entry_is(const struct piece_entry *entry, const uint64_t key[3])
{
    return entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2];
}

#endif
