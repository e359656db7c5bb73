/*
 * vocabulary_builder.c - see vocabulary_builder.h.
 *
 * GPT-2's mapping: the 188 printable characters of Latin-1 stand for their own byte; the other 68
 * bytes, in ascending order, for U+0100 to U+0143. Source: openai/gpt-2, encoder.py.
 */
#include "common/vocabulary_builder.h"

#include <stdlib.h>
#include <string.h>

/* The byte that a character of two UTF-8 bytes (U+0080 to U+07FF) stands for, or -1. */
static int decode_character(unsigned code)
{
    if ((code >= 0xA1 && code <= 0xAC) || (code >= 0xAE && code <= 0xFF))
        return (int)code;
    if (code >= 0x100 && code <= 0x120) /* bytes 0x00 to 0x20 */
        return (int)(code - 0x100);
    if (code >= 0x121 && code <= 0x142) /* 0x7F to 0xA0 */
        return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}

size_t byte_level_decode(const char *text, size_t size, uint8_t *out)
{
    size_t num_bytes = 0;

    for (size_t i = 0; i < size; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c > 0x20 && c < 0x7F) {
            out[num_bytes++] = c;
            continue;
        }
        if (c == 0xC4 && i + 1 < size && (uint8_t)text[i + 1] == 0xA0) { /* the space */
            out[num_bytes++] = ' ';
            i++;
            continue;
        }
        if (c < 0xC2 || c > 0xC5 || i + 1 == size)
            return SIZE_MAX;
        int byte = decode_character((c & 0x1Fu) << 6 | ((uint8_t)text[++i] & 0x3Fu));
        if (byte < 0)
            return SIZE_MAX;
        out[num_bytes++] = (uint8_t)byte;
    }
    return num_bytes;
}

static struct status reserve(struct vocabulary_builder *builder, size_t size)
{
    if (builder->num_bytes + size > UINT32_MAX)
        return status_error(STATUS_UNSUPPORTED, "vocabulary of more than 4 GiB");
    if (builder->num_bytes + size >= builder->bytes_capacity) { /* one more: never NULL */
        size_t capacity = (builder->num_bytes + size) * 2 + 4096;
        uint8_t *bytes = realloc(builder->bytes, capacity);
        if (!bytes)
            return status_error(STATUS_NO_MEMORY, "no memory for a vocabulary");
        builder->bytes = bytes;
        builder->bytes_capacity = capacity;
    }
    if (builder->num_entries == builder->entries_capacity) {
        size_t capacity = builder->entries_capacity ? builder->entries_capacity * 2 : 1024;
        struct vocabulary_entry *entries = realloc(builder->entries, capacity * sizeof(*entries));
        if (!entries)
            return status_error(STATUS_NO_MEMORY, "no memory for a vocabulary");
        builder->entries = entries;
        builder->entries_capacity = capacity;
    }
    return status_ok();
}

struct status vocabulary_builder_add(struct vocabulary_builder *builder, int64_t id,
                                     struct json_text text)
{
    if (id < 0 || id >= VOCABULARY_MAX_TOKENS)
        return status_error(STATUS_UNSUPPORTED, "token \"%.*s\": id %lld, not in 0 to %d",
                            (int)(text.size < 40 ? text.size : 40), text.data, (long long)id,
                            VOCABULARY_MAX_TOKENS - 1);
    struct status status = reserve(builder, text.size);
    if (status.code)
        return status;
    uint8_t *bytes = builder->bytes + builder->num_bytes;
    size_t size = byte_level_decode(text.data, text.size, bytes);
    bool is_byte_level = size != SIZE_MAX;
    if (!is_byte_level) {
        size = text.size;
        memcpy(bytes, text.data, size);
    }
    builder->entries[builder->num_entries++] = (struct vocabulary_entry){
        .offset = (uint32_t)builder->num_bytes,
        .size = (uint32_t)size,
        .id = (int32_t)id,
        .is_byte_level = is_byte_level,
    };
    builder->num_bytes += size;
    if (id >= builder->num_tokens)
        builder->num_tokens = (int32_t)id + 1;
    return status;
}

struct status vocabulary_builder_read(struct vocabulary_builder *builder,
                                      struct json_reader *reader)
{
    struct json_text text;
    char *kept = NULL; /* a key with escapes lies in the reader's scratch, which the id may use */
    size_t kept_size = 0;
    struct status status = status_ok();

    if (!json_enter_object(reader))
        return json_reader_status(reader);
    while (!status.code && json_next_key(reader, &text)) {
        int64_t id = -1;
        if (text.data == reader->scratch) {
            if (text.size >= kept_size) {
                char *larger = realloc(kept, text.size * 2 + 64);
                if (!larger) {
                    status = status_error(STATUS_NO_MEMORY, "no memory for a token");
                    break;
                }
                kept = larger;
                kept_size = text.size * 2 + 64;
            }
            memcpy(kept, text.data, text.size);
            text.data = kept;
        }
        if (json_read_int(reader, &id))
            status = vocabulary_builder_add(builder, id, text);
    }
    free(kept);
    return status.code ? status : json_reader_status(reader);
}

void vocabulary_builder_deinit(struct vocabulary_builder *builder)
{
    free(builder->bytes);
    free(builder->entries);
    *builder = (struct vocabulary_builder){0};
}
