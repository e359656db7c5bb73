/*
 * small_tokenizer.h - the text of a tokenizer.json with all bytes and a few merges, for tests that
 * want a pipeline of their own.
 */
#ifndef TESTS_UNIT_SMALL_TOKENIZER_H
#define TESTS_UNIT_SMALL_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

/* The character that stands for a byte: GPT-2's mapping. Returns its size in UTF-8. */
static inline size_t small_character(unsigned byte, char out[2])
{
    unsigned code = byte;
    bool is_own = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);

    if (!is_own && byte <= 0x20)
        code = 0x100 + byte;
    else if (!is_own)
        code = byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

static inline size_t small_text(const char *bytes, size_t size, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++)
        n += small_character((uint8_t)bytes[i], out + n);
    return n;
}

/* Merges as pairs of strings, left and right of each, ended by NULL; token ids: bytes 0..255, then
 * the merges' results in order. pipeline: members such as "\"normalizer\":{...},", or "". To be
 * freed. */
static inline char *small_tokenizer(const char *pipeline, const char *const *merges,
                                    const char *more_model)
{
    struct json_writer vocab = {0}, list = {0};
    char text[256];
    int id = 256;

    json_begin_object(&vocab);
    for (unsigned byte = 0; byte < 256; byte++) {
        text[small_character(byte, text)] = '\0';
        json_key(&vocab, text);
        json_int(&vocab, byte);
    }
    json_begin_array(&list);
    for (; merges && merges[0]; merges += 2) {
        size_t n = small_text(merges[0], strlen(merges[0]), text);
        json_begin_array(&list);
        json_string(&list, text, n);
        size_t m = small_text(merges[1], strlen(merges[1]), text + n);
        json_string(&list, text + n, m);
        json_end_array(&list);
        text[n + m] = '\0';
        json_key(&vocab, text);
        json_int(&vocab, id++);
    }
    json_end_array(&list);
    json_end_object(&vocab);
    size_t size = vocab.size + list.size + strlen(pipeline) + strlen(more_model) + 100;
    char *json = malloc(size);
    if (json)
        snprintf(json, size, "{%s\"model\":{\"type\":\"BPE\",%s\"vocab\":%s,\"merges\":%s}}",
                 pipeline, more_model, vocab.data, list.data);
    json_writer_deinit(&vocab);
    json_writer_deinit(&list);
    return json;
}

#endif
