/* hand_vocabulary.h - a vocabulary out of a list of strings, for tests that need no tokenizer.json.
 */
#ifndef TESTS_UNIT_HAND_VOCABULARY_H
#define TESTS_UNIT_HAND_VOCABULARY_H

#include <stdlib.h>
#include <string.h>

#include "common/vocabulary.h"

/* tokens: [num_tokens]; NULL: an id that no token has; a leading '\1' marks a special one. */
static inline struct vocabulary hand_vocabulary(const char *const *tokens, int32_t num_tokens)
{
    struct vocabulary v = {.num_tokens = num_tokens};
    size_t total = 0;

    for (int32_t i = 0; i < num_tokens; i++)
        total += tokens[i] ? strlen(tokens[i]) : 0;
    v.offsets = calloc((size_t)num_tokens + 1, sizeof(*v.offsets));
    v.bytes = malloc(total + 1);
    v.flags = calloc((size_t)num_tokens + 1, 1);
    for (int32_t i = 0; i < num_tokens; i++) {
        const char *token = tokens[i];
        size_t size = 0;
        if (token) {
            v.flags[i] = VOCABULARY_PRESENT;
            if (*token == '\1') {
                v.flags[i] |= VOCABULARY_ADDED | VOCABULARY_SPECIAL;
                token++;
            }
            size = strlen(token);
            memcpy(v.bytes + v.offsets[i], token, size);
        }
        v.offsets[i + 1] = v.offsets[i] + (uint32_t)size;
    }
    return v;
}

/* Token i is the byte i; token 256 is special and reads "<s>"; 257 is no token. */
static inline struct vocabulary byte_vocabulary(void)
{
    struct vocabulary v = {.num_tokens = 258};

    v.offsets = calloc(259, sizeof(*v.offsets));
    v.bytes = malloc(260);
    v.flags = calloc(258, 1);
    for (int i = 0; i < 256; i++) {
        v.bytes[i] = (uint8_t)i;
        v.offsets[i + 1] = (uint32_t)i + 1;
        v.flags[i] = VOCABULARY_PRESENT;
    }
    memcpy(v.bytes + 256, "<s>", 3);
    v.offsets[257] = 259;
    v.offsets[258] = 259;
    v.flags[256] = VOCABULARY_PRESENT | VOCABULARY_ADDED | VOCABULARY_SPECIAL;
    return v;
}

#endif
