/*
 * utf8.h - UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 *
 * Source: The Unicode Standard, table 3-7 (well-formed byte sequences).
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the valid sequence at p, 1 to 4; 0 when none stands there within size > 0 bytes. */
static inline size_t utf8_sequence_size(const uint8_t *p, size_t size)
{
    uint8_t lead = p[0];
    size_t need = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    if (need == 0 || need > size || lead > 0xF4)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F) ||
        (lead == 0xF0 && p[1] < 0x90) || (lead == 0xF4 && p[1] > 0x8F))
        return 0;
    return need;
}

/* Writes code <= 0x10FFFF to out[4], a surrogate too if it is one; returns its number of bytes. */
static inline size_t utf8_encode(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* How many bytes at the start of the text are valid: size when all are. */
size_t utf8_valid_prefix(const uint8_t *text, size_t size);

static inline bool utf8_is_valid(const void *text, size_t size)
{
    return utf8_valid_prefix((const uint8_t *)text, size) == size;
}

#endif
