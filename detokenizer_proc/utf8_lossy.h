/*
 * utf8_lossy.h - bytes in, valid UTF-8 out, in pieces of any size.
 *
 * Each maximal invalid part (Unicode standard, section 3.9: "maximal subpart") becomes one U+FFFD,
 * so that all pieces together equal Rust's from_utf8_lossy of all bytes together. A character cut
 * by the end of a piece waits for the next one; nothing else does.
 */
#ifndef DETOKENIZER_PROC_UTF8_LOSSY_H
#define DETOKENIZER_PROC_UTF8_LOSSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zero is the state at the start of a text. */
struct utf8_lossy {
    uint8_t part[3]; /* the first bytes of a character that the next piece may complete */
    uint8_t size;    /* their number */
};

enum { UTF8_LOSSY_FLUSH_ROOM = 3 };

/* The most bytes that a piece of size bytes gives. */
static inline size_t utf8_lossy_room(size_t size)
{
    return 3 * size + 3;
}

/* Writes what the next piece gives to out, [utf8_lossy_room(size)]; returns its size. */
size_t utf8_lossy_feed(struct utf8_lossy *utf8, const uint8_t *bytes, size_t size, char *out);

/* The end of the text: U+FFFD for a character that stayed incomplete, in out
 * [UTF8_LOSSY_FLUSH_ROOM]; returns its size, and is at the start of a text again. */
size_t utf8_lossy_flush(struct utf8_lossy *utf8, char *out);

#endif
