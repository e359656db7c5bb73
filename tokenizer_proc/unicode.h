/*
 * unicode.h - what the patterns of pre-tokenizers ask about characters, and the data of NFC.
 *
 * The classes are those that the Hugging Face library shows (Oniguruma, Unicode 16.0); the NFC
 * tables are of Unicode 9.0, as that library has them. unicode_tables.c is generated, see
 * tools/unicode.
 */
#ifndef TOKENIZER_PROC_UNICODE_H
#define TOKENIZER_PROC_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_class {
    UNICODE_LETTER = 1 << 0,  /* \p{L} */
    UNICODE_NUMBER = 1 << 1,  /* \p{N} */
    UNICODE_MARK = 1 << 2,    /* \p{M} */
    UNICODE_SYMBOL = 1 << 3,  /* [\p{P}\p{S}] */
    UNICODE_SPACE = 1 << 4,   /* \s */
    UNICODE_UPPER = 1 << 5,   /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    UNICODE_LOWER = 1 << 6,   /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
    UNICODE_WORD = 1 << 7,    /* \w, as the flag single_word of added tokens sees it */
    UNICODE_NUMERIC = 1 << 8, /* what the pre-tokenizer Digits splits: \p{N} of a newer version */
    UNICODE_NFC_UNSTABLE = 1 << 9, /* NFC may change it or join it to what stands before it */
};

enum { UNICODE_NUM_CCC = 333, UNICODE_NUM_DECOMPOSITIONS = 2060, UNICODE_NUM_COMPOSITIONS = 940 };

struct unicode_ccc {
    uint32_t first, last;
    uint8_t ccc; /* canonical combining class, never 0 */
};

/* code decomposes canonically, one step, into first and second (0: none). */
struct unicode_pair {
    uint32_t code, first, second;
};

extern const uint16_t unicode_ascii[128];
extern const uint16_t unicode_combinations[128];
extern const uint16_t unicode_num_index;
extern const uint8_t unicode_index[];
extern const char unicode_blocks[][128];
extern const struct unicode_ccc unicode_ccc_ranges[UNICODE_NUM_CCC];                 /* ascending */
extern const struct unicode_pair unicode_decompositions[UNICODE_NUM_DECOMPOSITIONS]; /* by code */
/* The decompositions that NFC puts together again, ordered by first, then second. */
extern const uint16_t unicode_compositions[UNICODE_NUM_COMPOSITIONS];

/* The character at p, which must stand in valid UTF-8, and its number of bytes. */
static inline uint32_t unicode_decode(const uint8_t *p, size_t *out_size)
{
    uint32_t c = p[0];

    if (c < 0x80) {
        *out_size = 1;
        return c;
    }
    if (c < 0xE0) {
        *out_size = 2;
        return (c & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (c < 0xF0) {
        *out_size = 3;
        return (c & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *out_size = 4;
    return (c & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* The bits of enum unicode_class. */
static inline unsigned unicode_class(uint32_t code)
{
    uint32_t block = code >> 7;

    if (block >= unicode_num_index)
        block = unicode_num_index - 1u;
    return unicode_combinations[(unsigned char)unicode_blocks[unicode_index[block]][code & 127]];
}

static inline unsigned unicode_class_at(const uint8_t *p, size_t *out_size)
{
    if (*p < 0x80) {
        *out_size = 1;
        return unicode_ascii[*p];
    }
    return unicode_class(unicode_decode(p, out_size));
}

/* The class of the character that ends just before p; start < p. */
static inline unsigned unicode_class_before(const uint8_t *start, const uint8_t *p)
{
    size_t size;

    do
        p--;
    while (p > start && (*p & 0xC0) == 0x80);
    return unicode_class_at(p, &size);
}

/* Canonical combining class; 0 for most characters. */
uint8_t unicode_ccc(uint32_t code);

/* The decomposition of code, or NULL. Hangul syllables are not in the table. */
const struct unicode_pair *unicode_decomposition(uint32_t code);

/* What NFC makes of first and second side by side, or 0. Knows Hangul. */
uint32_t unicode_compose(uint32_t first, uint32_t second);

#endif
