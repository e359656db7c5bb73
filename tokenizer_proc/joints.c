/* joints.c - see joints.h. */
#include "tokenizer_proc/joints.h"

#include "tokenizer_proc/unicode.h"

static inline uint32_t hash_pair(uint32_t left, uint32_t right)
{
    return (left * 0x9E3779B1u ^ right * 0x85EBCA77u) * 0xC2B2AE3Du >> (32 - JOINTS_BITS);
}

static inline uint32_t hash_one(uint32_t code)
{
    return code * 0x9E3779B1u >> (32 - JOINTS_OPEN_BITS);
}

static inline bool has(const uint64_t *bits, uint32_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static void set(uint64_t *bits, uint32_t i)
{
    bits[i >> 6] |= (uint64_t)1 << (i & 63);
}

/* Bytes of the character that starts with this byte; 0 for a byte within one. */
static size_t character_size(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

void joints_add(struct joints *joints, const uint8_t *left, size_t left_size, const uint8_t *right,
                size_t right_size)
{
    size_t right_needs = character_size(right[0]), size;

    if (right_needs == 0) /* inside a character: no place to cut at anyway */
        return;
    size_t last = left_size - 1;
    while (last > 0 && (left[last] & 0xC0) == 0x80)
        last--;
    /* Bytes need not be UTF-8 in a token; what does not fit is a character with an open end. */
    bool left_whole = character_size(left[last]) == left_size - last;
    bool right_whole = right_needs <= right_size;
    for (size_t i = 1; right_whole && i < right_needs; i++)
        right_whole = (right[i] & 0xC0) == 0x80;
    if (left_whole && right_whole)
        set(joints->pairs,
            hash_pair(unicode_decode(left + last, &size), unicode_decode(right, &size)));
    else if (left_whole)
        set(joints->open_right, hash_one(unicode_decode(left + last, &size)));
    else if (right_whole)
        set(joints->open_left, hash_one(unicode_decode(right, &size)));
    else
        set(joints->bytes, (uint32_t)left[left_size - 1] << 8 | right[0]);
}

size_t joints_cut(const struct joints *joints, const uint8_t *piece, size_t size)
{
    size_t at, next_size;
    uint32_t code = unicode_decode(piece, &at), next;

    for (; at < size; at += next_size, code = next) {
        next = unicode_decode(piece + at, &next_size);
        if (!has(joints->pairs, hash_pair(code, next)) &&
            !has(joints->open_right, hash_one(code)) && !has(joints->open_left, hash_one(next)) &&
            !has(joints->bytes, (uint32_t)piece[at - 1] << 8 | piece[at]))
            break;
    }
    return at;
}
