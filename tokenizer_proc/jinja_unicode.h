/*
 * jinja_unicode.h - what Python's str methods know of characters: kinds and case.
 *
 * Source: the Unicode Character Database 14.0, through Python 3.11 (tools/gen_jinja_unicode.py).
 */
#ifndef TOKENIZER_PROC_JINJA_UNICODE_H
#define TOKENIZER_PROC_JINJA_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

enum jinja_char {
    JINJA_CHAR_ALPHA = 1 << 0,
    JINJA_CHAR_DECIMAL = 1 << 1,
    JINJA_CHAR_DIGIT = 1 << 2,
    JINJA_CHAR_NUMERIC = 1 << 3,
    JINJA_CHAR_SPACE = 1 << 4,
    JINJA_CHAR_PRINTABLE = 1 << 5,
    JINJA_CHAR_UPPER = 1 << 6,
    JINJA_CHAR_LOWER = 1 << 7,
    JINJA_CHAR_TITLE = 1 << 8,
    JINJA_CHAR_WORD = 1 << 9, /* letters, digits, underscore */
    JINJA_CHAR_ID_START = 1 << 10,
    JINJA_CHAR_ID_CONTINUE = 1 << 11,
    JINJA_CHAR_CASED = 1 << 12,
    JINJA_CHAR_CASE_IGNORABLE = 1 << 13,
};

uint32_t jinja_char_flags(uint32_t character);

static inline bool jinja_char_is(uint32_t character, uint32_t any_of)
{
    return (jinja_char_flags(character) & any_of) != 0;
}

enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_FOLD };

/* The character in that case: 1 to 3 characters into out; returns how many. */
int jinja_map_case(uint32_t character, enum jinja_case to, uint32_t out[3]);

#endif
