/*
 * step_pack.h - a batch as the packed block of kernels/step_block.h, padded to what a captured
 * graph wants. Host memory only.
 */
#ifndef SCHEDULER_PROC_STEP_PACK_H
#define SCHEDULER_PROC_STEP_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler_proc/batch.h"

/*
 * What the block is padded to. Padding rows belong to the dummy row of the page table, read and
 * write the dummy page, and sample into the dummy row of the token pool. Each has one token, or
 * none where there are not enough; padding tokens beyond belong to no row, and write the dummy page
 * too.
 */
struct step_padding {
    int32_t num_tokens, num_rows; /* with padding: at least the batch's */
    int32_t dummy_row;
    int32_t dummy_slot; /* first slot of the dummy page */
    int32_t page_size;
};

/* Bytes of the largest block that these limits allow, padded to num_tokens and num_rows. */
size_t step_block_max_bytes(const struct batch_limits *limits, int32_t num_tokens,
                            int32_t num_rows);

/* Fills the block (aligned to 16 bytes) and returns its size in bytes. */
size_t step_pack(void *block, const struct batch *batch, const struct step_padding *padding);

#endif
