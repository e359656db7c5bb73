/*
 * nfc.h - Unicode Normalization Form C, with the tables of Unicode 9.0 that Hugging Face's library
 * has.
 *
 * Most text is in that form already: nfc_find_unstable finds that out at the speed of reading. The
 * rest is normalised in segments, each from a character that nothing before can touch to the next
 * such one; so the work is n log n at worst, and where bytes came from stays known.
 */
#ifndef TOKENIZER_PROC_NFC_H
#define TOKENIZER_PROC_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/buffer.h"

/* Bytes [in_start, in_end) became [out_start, out_end); between segments the text is the same. */
struct nfc_segment {
    size_t in_start, in_end, out_start, out_end;
};

struct nfc {
    struct buffer text;     /* uint8_t: the result */
    struct buffer segments; /* struct nfc_segment, ascending */
    struct buffer codes;    /* uint32_t: a segment's characters, combining class in the top byte */
    struct buffer sorted;   /* uint32_t: room for sorting marks */
    size_t size, num_segments, num_codes;
};

/* Where the first character stands that NFC may change or join to the one before; size if none. */
size_t nfc_find_unstable(const uint8_t *text, size_t size);

/* Normalises valid UTF-8 into nfc->text[nfc->size]. from: what nfc_find_unstable said. */
MUST_CHECK struct status nfc_normalize(struct nfc *nfc, const uint8_t *text, size_t size,
                                       size_t from);

/* The input bytes behind output bytes [start, end), whole segments where they are touched. */
void nfc_source(const struct nfc *nfc, size_t start, size_t end, size_t *out_start,
                size_t *out_end);

void nfc_deinit(struct nfc *nfc);

#endif
