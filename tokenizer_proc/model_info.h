/*
 * model_info.h - what the tokenizer process must know of the model beside its tokenizer: how many
 * ids it has, and how long a sequence may be.
 */
#ifndef TOKENIZER_PROC_MODEL_INFO_H
#define TOKENIZER_PROC_MODEL_INFO_H

#include <stdint.h>

#include "common/status.h"

struct model_info {
    int32_t vocab_size;  /* rows of the embedding: ids are below it; 0: not said */
    int32_t max_seq_len; /* prompt and answer together; 0: not said */
};

/* Reads "dir/config.json"; a model of several parts says it under "text_config". A directory
 * without the file leaves both at 0; a file that is no JSON is an error, as are numbers that are
 * none. */
MUST_CHECK struct status model_info_read(const char *dir, struct model_info *out);

#endif
