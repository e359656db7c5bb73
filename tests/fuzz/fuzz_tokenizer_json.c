/*
 * fuzz_tokenizer_json.c - any bytes as a tokenizer.json: both halves load or refuse, and what has
 * loaded encodes, the same with and without its cache.
 */
#include <stdlib.h>
#include <string.h>

#include "common/vocabulary.h"
#include "tokenizer_proc/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
    if (!holds)
        abort();
}

static void encode_twice(const struct tokenizer *tokenizer, const char *text, size_t size)
{
    struct encoder *encoder = NULL;
    struct token_list first = {0}, second = {0};
    struct encode_args args = {
        .text = text, .size = size, .parse_special = true, .add_special_tokens = true};

    if (encoder_create(tokenizer, &encoder).code)
        return;
    expect(!encoder_encode(encoder, &args, &first).code);
    expect(!encoder_encode(encoder, &args, &second).code);
    expect(first.num_ids == second.num_ids);
    expect(!first.num_ids ||
           memcmp(first.ids, second.ids, first.num_ids * sizeof(*first.ids)) == 0);
    /* No id is checked against the vocabulary: a template may name any. */
    token_list_deinit(&first);
    token_list_deinit(&second);
    encoder_destroy(&encoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "Hello  world, ab 123!\n\n it's <m> caf\xC3\xA9 e\xCC\x81 <m>\xE4\xBD\xA0\xE5\xA5\xBD ";
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct status status = vocabulary_load(&vocabulary, (const char *)data, size);

    expect(!status.code == (vocabulary.offsets != NULL));
    if (!status.code) {
        for (int32_t id = -1; id <= vocabulary.num_tokens; id++) {
            const uint8_t *bytes;
            expect(vocabulary_bytes(&vocabulary, id, &bytes) <= size);
        }
    }
    vocabulary_deinit(&vocabulary);
    status = tokenizer_load((const char *)data, size, &tokenizer);
    expect(!status.code == (tokenizer != NULL));
    if (tokenizer)
        encode_twice(tokenizer, text, sizeof(text) - 1);
    tokenizer_destroy(&tokenizer);
    return 0;
}
