/*
 * vocabulary_builder.h - collects tokens in the order of a tokenizer.json, which need not be that
 * of their ids. Both halves of a tokenizer are made of it: the decoder's vocabulary and the
 * encoder's tables.
 */
#ifndef COMMON_VOCABULARY_BUILDER_H
#define COMMON_VOCABULARY_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json.h"
#include "common/status.h"

enum { VOCABULARY_MAX_TOKENS = 1 << 22 }; /* ids lie below; bounds what a broken file can ask for */

struct vocabulary_entry {
    uint32_t offset, size; /* of its bytes in the builder's */
    int32_t id;
    bool is_byte_level; /* bytes are what its characters stand for; else they are its own UTF-8 */
};

struct vocabulary_builder {
    uint8_t *bytes; /* owned */
    size_t num_bytes, bytes_capacity;
    struct vocabulary_entry *entries; /* owned */
    size_t num_entries, entries_capacity;
    int32_t num_tokens; /* largest id + 1 */
};

/* Undoes GPT-2's mapping of bytes to printable characters: text[size] to at most size bytes at out.
 * Returns their number, or SIZE_MAX when a character stands for no byte. */
size_t byte_level_decode(const char *text, size_t size, uint8_t *out);

/* Adds a token as it is written in the file. */
MUST_CHECK struct status vocabulary_builder_add(struct vocabulary_builder *builder, int64_t id,
                                                struct json_text text);

/* Reads the object of "vocab": token to id. Errors name the token. */
MUST_CHECK struct status vocabulary_builder_read(struct vocabulary_builder *builder,
                                                 struct json_reader *reader);
void vocabulary_builder_deinit(struct vocabulary_builder *builder);

#endif
