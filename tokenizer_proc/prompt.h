/*
 * prompt.h - a request's prompt, in whatever form, to token ids that the model can take.
 *
 * Pure but for the tokenizer and the template that it is given, which threads share; a maker is one
 * thread's.
 */
#ifndef TOKENIZER_PROC_PROMPT_H
#define TOKENIZER_PROC_PROMPT_H

#include <stdbool.h>

#include "common/arena.h"
#include "common/status.h"
#include "proto/messages.h"
#include "tokenizer_proc/chat_template.h"
#include "tokenizer_proc/model_info.h"
#include "tokenizer_proc/token_list.h"
#include "tokenizer_proc/tokenizer.h"

enum { PROMPT_MAX_TEXT_BYTES = 16 << 20 };

/* What all makers share. A model without a tokenizer takes token ids only. */
struct prompt_model {
    const struct tokenizer *tokenizer; /* borrowed; NULL: there is no tokenizer.json */
    const struct chat_template *chat;  /* borrowed; NULL: there is none that works, and */
    struct status chat_status;         /* then this says why */
    struct model_info info;
};

struct prompt_maker {
    const struct prompt_model *model; /* borrowed */
    struct encoder *encoder;          /* owned; NULL without a tokenizer */
    struct token_list ids;            /* of the last prompt that was text */
};

MUST_CHECK struct status prompt_maker_init(struct prompt_maker *maker,
                                           const struct prompt_model *model);
void prompt_maker_deinit(struct prompt_maker *maker);

struct prompt {
    const int32_t *ids; /* borrowed from the maker or the message, until the next prompt */
    size_t num_ids;
    struct bytes text; /* what was encoded: rendered or given; borrowed likewise */
};

/*
 * Text, messages or ids to ids, all below the model's vocab_size. STATUS_INVALID: the words name
 * the key; STATUS_NO_SPACE: too long a text; the rest is a fault of the server.
 */
MUST_CHECK struct status prompt_make(struct prompt_maker *maker, const struct generate_msg *msg,
                                     int64_t now_s, struct arena *arena, struct prompt *out);

/*
 * Whether a prompt can be generated from: not empty, and with room for one token at least
 * (STATUS_NO_SPACE names both numbers); and whether stop_token_ids are the model's.
 */
MUST_CHECK struct status prompt_check(const struct prompt_model *model,
                                      const struct generate_msg *msg, const struct prompt *prompt);

#endif
