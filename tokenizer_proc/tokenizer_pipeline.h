/*
 * tokenizer_pipeline.h - the small parts of a tokenizer.json: what happens before and behind the
 * model. A value may be NULL or JSON null. What is not understood is refused by name.
 */
#ifndef TOKENIZER_PROC_TOKENIZER_PIPELINE_H
#define TOKENIZER_PROC_TOKENIZER_PIPELINE_H

#include "common/json.h"
#include "tokenizer_proc/tokenizer_parts.h"

/* NFC, none, or sequences of these. */
MUST_CHECK struct status pipeline_read_normalizer(const struct json_value *value, bool *out_nfc);

/* Split, Digits, ByteLevel, or sequences of these, with ByteLevel last. */
MUST_CHECK struct status pipeline_read_pretokenizer(const struct json_value *value,
                                                    struct pretokenizer *out);

/* TemplateProcessing, ByteLevel, none, or sequences of these; fills before and after. */
MUST_CHECK struct status pipeline_read_post_processor(const struct json_value *value,
                                                      struct tokenizer *out);

#endif
