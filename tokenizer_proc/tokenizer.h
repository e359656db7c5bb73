/*
 * tokenizer.h - text to token ids, exactly as Hugging Face's `tokenizers` gives them, for any
 * byte-level BPE tokenizer.json.
 *
 * struct tokenizer is what the file says, immutable and shared by threads. struct encoder is one
 * thread's memory: scratch that grows with the largest text, and a cache of pieces of fixed size.
 * Time is n log n in the size of the text at worst, and nothing recurses.
 *
 * What the file asks for and is not understood (a pattern, a normaliser, a model) is refused at
 * load, by name.
 */
#ifndef TOKENIZER_PROC_TOKENIZER_H
#define TOKENIZER_PROC_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "tokenizer_proc/text_range.h"
#include "tokenizer_proc/token_list.h"

struct tokenizer;
struct encoder;

/* Reads "dir/tokenizer.json": STATUS_NOT_FOUND when there is none. */
MUST_CHECK struct status tokenizer_open(const char *dir, struct tokenizer **out);

/* Reads the bytes of a tokenizer.json, which are not needed afterwards. */
MUST_CHECK struct status tokenizer_load(const char *json, size_t size, struct tokenizer **out);
void tokenizer_destroy(struct tokenizer **tokenizer);

/* The largest id + 1. */
int32_t tokenizer_vocab_size(const struct tokenizer *tokenizer);

/* The tokenizer must outlive its encoders. */
MUST_CHECK struct status encoder_create(const struct tokenizer *tokenizer, struct encoder **out);
void encoder_destroy(struct encoder **encoder);

struct encode_args {
    const char *text; /* UTF-8; may hold NUL */
    size_t size;
    bool parse_special;      /* added tokens flagged special are looked for */
    bool add_special_tokens; /* what the post-processor puts around, such as BOS */
    /* Bytes of text that the caller of a chat wrote, ascending and apart: there, special tokens do
     * not match, not even with one byte. Added tokens that are not special match everywhere. */
    const struct text_range *data_ranges;
    size_t num_data_ranges;
};

/* Appends the ids of a text to out, which is as before on an error. STATUS_INVALID: no UTF-8. */
MUST_CHECK struct status encoder_encode(struct encoder *encoder, const struct encode_args *args,
                                        struct token_list *out);

#endif
