/*
 * fake_model.h - a model without weights, for tests of the core. It obeys a batch's spans as the
 * device does and computes each token from all that it finds through page_table, token_pool and
 * slots, so that any mix-up of rows, positions or pages changes the text.
 *
 * A slot holds, for the token written to it, a hash of that token and of all before it. The next
 * token is a hash of the slots of all positions, so a request's text is a function of its prompt.
 */
#ifndef TESTS_UNIT_FAKE_MODEL_H
#define TESTS_UNIT_FAKE_MODEL_H

#include "scheduler_proc/scheduler.h"

struct fake_slot {
    uint64_t context; /* 0: never written */
    uint64_t nan_uid; /* request whose step wrote it and had NaN, or 0 */
};

struct fake_model {
    struct scheduler_config config;
    struct batch_limits limits;
    int32_t max_pages_per_req;
    int32_t *page_table;     /* owned, [max_running_reqs + 1][max_pages_per_req] */
    int32_t *token_pool;     /* owned, [max_running_reqs + 1][max_seq_len] */
    struct fake_slot *slots; /* owned, [num_pages * page_size] */
};

void fake_model_init(struct fake_model *model, const struct scheduler_config *config,
                     const struct scheduler *scheduler);
void fake_model_deinit(struct fake_model *model);

/*
 * Runs a step; results[r] are its tokens, RESULT_NAN where is_nan(context, row) says so. Returns
 * NULL, or what is wrong with the batch.
 */
const char *fake_model_run(struct fake_model *model, const struct batch *batch,
                           bool (*is_nan)(void *context, const struct batch_row *row),
                           void *context, int32_t *results);

/* The text that a prompt must give, token by token. */
struct fake_text {
    uint64_t context, sum;
    int32_t len, vocab_size;
};

void fake_text_add(struct fake_text *text, int32_t token);
int32_t fake_text_next(const struct fake_text *text);

uint64_t fake_hash(uint64_t a, uint64_t b);

#endif
