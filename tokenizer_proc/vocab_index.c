/* vocab_index.c - see vocab_index.h. */
#include "tokenizer_proc/vocab_index.h"

#include <stdlib.h>
#include <string.h>

static uint64_t load8(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

static uint64_t load4(const uint8_t *p)
{
    uint32_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9E3779B97F4A7C15u;
    return a ^ a >> 29;
}

static uint64_t hash_bytes(const uint8_t *bytes, size_t size)
{
    uint64_t hash = size * 0xD6E8FEB86659FD93u;

    if (size >= 8) {
        size_t i = 0;
        for (; i + 8 < size; i += 8)
            hash = mix(hash, load8(bytes + i));
        hash = mix(hash, load8(bytes + size - 8));
    } else if (size >= 4) {
        hash = mix(hash, load4(bytes) << 32 | load4(bytes + size - 4));
    } else if (size > 0) {
        hash =
            mix(hash, (uint64_t)bytes[0] << 16 | (uint64_t)bytes[size / 2] << 8 | bytes[size - 1]);
    }
    return mix(hash, hash >> 32);
}

/* The slot of these bytes, or the empty one where they belong. */
static struct vocab_slot *find_slot(const struct vocab_index *index, const uint8_t *bytes,
                                    size_t size, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);

    for (uint32_t i = (uint32_t)hash & index->mask;; i = (i + 1) & index->mask) {
        struct vocab_slot *slot = &index->slots[i];
        if (!slot->entry)
            return slot;
        if (slot->tag != tag)
            continue;
        const struct vocabulary_entry *entry = &index->vocab->entries[slot->entry - 1];
        if (entry->size == size && memcmp(index->vocab->bytes + entry->offset, bytes, size) == 0)
            return slot;
    }
}

struct status vocab_index_init(struct vocab_index *index, const struct vocabulary_builder *vocab)
{
    uint32_t slots = 16;

    while (slots / 8 * 5 < vocab->num_entries) /* at most 5/8 full */
        slots *= 2;
    index->vocab = vocab;
    index->mask = slots - 1;
    index->slots = calloc(slots, sizeof(*index->slots));
    if (!index->slots)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu tokens", vocab->num_entries);
    for (uint32_t i = 0; i < vocab->num_entries; i++) {
        const struct vocabulary_entry *entry = &vocab->entries[i];
        const uint8_t *bytes = vocab->bytes + entry->offset;
        if (!entry->is_byte_level)
            continue;
        uint64_t hash = hash_bytes(bytes, entry->size);
        struct vocab_slot *slot = find_slot(index, bytes, entry->size, hash);
        index->has_twins |= slot->entry != 0;
        *slot = (struct vocab_slot){.entry = i + 1, .tag = (uint32_t)(hash >> 32)};
    }
    return status_ok();
}

void vocab_index_deinit(struct vocab_index *index)
{
    free(index->slots);
    *index = (struct vocab_index){0};
}

int32_t vocab_index_find(const struct vocab_index *index, const uint8_t *bytes, size_t size)
{
    const struct vocab_slot *slot = find_slot(index, bytes, size, hash_bytes(bytes, size));

    return slot->entry ? index->vocab->entries[slot->entry - 1].id : -1;
}

int32_t vocab_index_find_next(const struct vocab_index *index, const uint8_t *bytes, size_t size,
                              uint32_t *entry)
{
    const struct vocabulary_builder *vocab = index->vocab;
    uint32_t next = *entry + 1;

    if (next < vocab->num_entries && !index->has_twins) {
        const struct vocabulary_entry *candidate = &vocab->entries[next];
        if (candidate->is_byte_level && candidate->size == size &&
            memcmp(vocab->bytes + candidate->offset, bytes, size) == 0) {
            *entry = next;
            return candidate->id;
        }
    }
    const struct vocab_slot *slot = find_slot(index, bytes, size, hash_bytes(bytes, size));
    if (!slot->entry)
        return -1;
    *entry = slot->entry - 1;
    return vocab->entries[*entry].id;
}
