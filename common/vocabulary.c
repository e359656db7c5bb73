/* vocabulary.c - see vocabulary.h. */
#include "common/vocabulary.h"

#include <stdlib.h>
#include <string.h>

struct status vocabulary_load(struct vocabulary *vocabulary, const char *json, size_t size)
{
    (void)vocabulary;
    (void)json;
    (void)size;
    return status_error(STATUS_UNSUPPORTED, "vocabulary: nothing here yet");
}

struct status vocabulary_open(struct vocabulary *vocabulary, const char *dir)
{
    (void)dir;
    return vocabulary_load(vocabulary, NULL, 0);
}

void vocabulary_deinit(struct vocabulary *vocabulary)
{
    free(vocabulary->offsets);
    free(vocabulary->bytes);
    free(vocabulary->flags);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find_added(const struct vocabulary *vocabulary, const char *content, size_t size)
{
    for (int32_t id = 0; id < vocabulary->num_tokens; id++) {
        const uint8_t *bytes;
        if (vocabulary->flags[id] & VOCABULARY_ADDED &&
            vocabulary_bytes(vocabulary, id, &bytes) == size && memcmp(bytes, content, size) == 0)
            return id;
    }
    return -1;
}
