/*
 * hash.h - hashes of bytes and of numbers, for tables and for repeatable noise; none resists a
 * peer that looks for collisions, so tables bound what one peer can put in.
 */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t hash_start = UINT64_C(14695981039346656037);

/* FNV-1a of what is already in hash (hash_start: nothing), then of data. Take the upper bits too. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* One to one; every bit of z moves every bit. Source: SplitMix64 (Steele, Lea and Flood 2014). */
static inline uint64_t hash_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

#endif
