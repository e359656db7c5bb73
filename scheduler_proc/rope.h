/*
 * rope.h - the table of rotary embedding: cos and sin of each position and frequency.
 *
 * default: inv_freq_i = theta^(-2i / head_dim). llama3 stretches the slow frequencies by its factor
 * and blends between; yarn blends by a linear ramp and multiplies cos and sin by its attention
 * factor. Values are computed as Hugging Face does, in float32 where it does.
 *
 * Source: transformers, modeling_rope_utils.py; yarn: Peng et al., arXiv 2309.00071.
 */
#ifndef SCHEDULER_PROC_ROPE_H
#define SCHEDULER_PROC_ROPE_H

#include <stdint.h>

#include "scheduler_proc/config.h"

/* out[head_dim / 2] */
void rope_inv_freq(const struct rope_config *rope, int32_t head_dim, float *out);

/* out[max_position, head_dim]: cos of the half, then sin of the half. */
void rope_fill(const struct rope_config *rope, int32_t head_dim, int32_t max_position, float *out);

#endif
