/* tokenizer.c - see tokenizer.h. The encoder is in encoder.c. */
#include "tokenizer_proc/tokenizer.h"

#include <stdlib.h>

#include "common/file.h"
#include "tokenizer_proc/tokenizer_parts.h"

struct status tokenizer_load(const char *json, size_t size, struct tokenizer **out)
{
    struct tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));

    if (!tokenizer)
        return status_error(STATUS_NO_MEMORY, "no memory for a tokenizer");
    struct status status = tokenizer_json_read(tokenizer, json, size);
    if (status.code) {
        tokenizer_destroy(&tokenizer);
        return status;
    }
    *out = tokenizer;
    return status;
}

struct status tokenizer_open(const char *dir, struct tokenizer **out)
{
    char path[4096];
    struct file_map map = {0};
    struct status status = path_join(dir, "tokenizer.json", path, sizeof(path));

    if (!status.code)
        status = file_map_open(&map, path);
    if (status.code)
        return status;
    status = status_context(tokenizer_load(map.data, map.size, out), path);
    file_map_close(&map);
    return status;
}

void tokenizer_destroy(struct tokenizer **tokenizer_ptr)
{
    struct tokenizer *tokenizer = *tokenizer_ptr;

    if (!tokenizer)
        return;
    added_tokens_deinit(&tokenizer->added);
    bpe_deinit(&tokenizer->bpe);
    free(tokenizer->joints);
    vocab_index_deinit(&tokenizer->vocab_index);
    vocabulary_builder_deinit(&tokenizer->vocab);
    free(tokenizer);
    *tokenizer_ptr = NULL;
}

int32_t tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return tokenizer->vocab_size;
}
