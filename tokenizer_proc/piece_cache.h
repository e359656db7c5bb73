/*
 * piece_cache.h - the tokens of pieces seen lately: text is made of few words.
 *
 * Each short piece has two places, by its hash; a new one takes the first, and what was there moves
 * to the second. So the size is fixed, and the worst that a text can do is to gain nothing.
 */
#ifndef TOKENIZER_PROC_PIECE_CACHE_H
#define TOKENIZER_PROC_PIECE_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"

enum {
    PIECE_CACHE_BITS = 15, /* of pairs of entries: 4 MiB, of which only what is used is touched */
    PIECE_MAX_SIZE = 23,   /* bytes */
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
    struct piece_entry
        *entries; /* borrowed from memory, at a cache line: [2 << PIECE_CACHE_BITS] */
    void *memory; /* owned */
};

MUST_CHECK static inline struct status piece_cache_init(struct piece_cache *cache)
{
    size_t size = (sizeof(struct piece_entry) * 2) << PIECE_CACHE_BITS;

    cache->memory = calloc(1, size + 127); /* pages of zeros, not touched before they are used */
    if (!cache->memory)
        return status_error(STATUS_NO_MEMORY, "no memory for a piece cache");
    size_t lead = (size_t)(-(uintptr_t)cache->memory & 127);
    cache->entries = (struct piece_entry *)((uint8_t *)cache->memory + lead);
    return status_ok();
}

static inline void piece_cache_deinit(struct piece_cache *cache)
{
    free(cache->memory);
    *cache = (struct piece_cache){0};
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

/* The first of a key's two places. */
static inline struct piece_entry *piece_cache_place(const struct piece_cache *cache,
                                                    const uint64_t key[3])
{
    uint64_t hash = (key[0] ^ key[2]) * 0x9E3779B97F4A7C15u ^ key[1] * 0xC2B2AE3D27D4EB4Fu;

    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93u;
    return &cache->entries[hash >> (64 - PIECE_CACHE_BITS) << 1];
}

static inline bool piece_entry_is(const struct piece_entry *entry, const uint64_t key[3])
{
    return entry->key[0] == key[0] && entry->key[1] == key[1] && entry->key[2] == key[2];
}

/* Makes the first place free for a new piece. */
static inline struct piece_entry *piece_cache_renew(struct piece_entry *place)
{
    place[1] = place[0];
    return place;
}

#endif
