/*
 * rig.h - a scheduler, the fake model and a loop around them, for tests that say what comes in and
 * look at what comes out. traffic.h judges all by itself; here the test judges.
 */
#ifndef TESTS_UNIT_RIG_H
#define TESTS_UNIT_RIG_H

#include "tests/unit/fake_model.h"

enum { RIG_EOS = 7, RIG_VOCAB_SIZE = 1000, RIG_MAX_OUTPUTS = 1 << 16, RIG_MAX_ROWS = 64 };

struct rig {
    struct scheduler *scheduler; /* owned */
    struct fake_model model;
    bool is_overlapped; /* step k is launched before step k-1 is processed */
    bool checks;        /* scheduler_check after each call */
    int32_t eos_at;  /* number of the token that is RIG_EOS, the others are not; -1: the model's */
    int32_t nan_end; /* a row that ends at that position comes as NaN; 0: none */
    const struct batch *launched[2];
    int32_t results[2][RIG_MAX_ROWS];
    int32_t num_launched;
    struct token_row *outputs; /* owned: all rows so far; reply_to is not kept */
    int32_t num_outputs;
    enum error_code last_rejection; /* ERROR_NONE: none since the last submit */
    char rejection_text[256];
    void (*on_launch)(struct rig *rig, const struct batch *batch); /* before it runs; or NULL */
};

/* page 4, 64 pages, 8 rows, 256 tokens, budget 64, radix, prefill-first. */
struct scheduler_config rig_config(void);

/* The test fails when the scheduler cannot be made; eos_ids are RIG_EOS if the config has none. */
void rig_init(struct rig *rig, const struct scheduler_config *config);
void rig_deinit(struct rig *rig);

/* A greedy request of at most four tokens; ids are borrowed. */
struct request_msg rig_request(uint64_t uid, const int32_t *ids, size_t num_ids);
/* A prompt of `family`, `family` + 1, ... with client uid % 4. */
void rig_submit(struct rig *rig, uint64_t uid, int32_t family, int32_t prompt_len,
                int32_t max_tokens);
void rig_submit_request(struct rig *rig, const struct request_msg *request);
void rig_abort(struct rig *rig, uint64_t uid);

/* false when there is nothing to launch (process). */
bool rig_launch(struct rig *rig);
bool rig_process(struct rig *rig);
/* One turn of the loop. false when nothing happened in it. */
bool rig_turn(struct rig *rig);
void rig_run_until_idle(struct rig *rig);

/* Outputs of a uid: tokens up to its terminal, and how it ended (FINISH_NONE: not yet). Rows behind
 * the terminal are counted in out_num_after. Any output may be NULL. */
int32_t rig_tokens(const struct rig *rig, uint64_t uid, int32_t *out_tokens,
                   enum finish_reason *out_finish, int32_t *out_num_after);
/* How a uid ended; FINISH_NONE: not yet. */
enum finish_reason rig_finish(const struct rig *rig, uint64_t uid);
/* The first row of a uid, or NULL. */
const struct token_row *rig_first(const struct rig *rig, uint64_t uid);

/* The test fails unless uid has the text that its prompt gives alone, and that many tokens. */
void rig_expect_text(const struct rig *rig, uint64_t uid, int32_t family, int32_t prompt_len,
                     int32_t num_tokens);
struct scheduler_stats rig_stats(const struct rig *rig);
/* The test fails unless nothing is held: rows, locks, private pages; and all invariants hold. */
void rig_expect_idle(const struct rig *rig);

#endif
