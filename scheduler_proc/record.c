/* record.c - see record.h: the writing half, and the numbers of kinds for replay.c. */
#include "scheduler_proc/record.h"

#include <string.h>

#include "scheduler_proc/record_format.h"

static void put_u8(const struct record_sink *sink, uint8_t value)
{
    sink->write(sink->context, &value, 1);
}

static void put_u32(const struct record_sink *sink, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 24)};

    sink->write(sink->context, bytes, sizeof(bytes));
}

static void put_u64(const struct record_sink *sink, uint64_t value)
{
    put_u32(sink, (uint32_t)value);
    put_u32(sink, (uint32_t)(value >> 32));
}

static void put_float(const struct record_sink *sink, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_u32(sink, bits);
}

static void put_ids(const struct record_sink *sink, const int32_t *ids, uint32_t num_ids)
{
    put_u32(sink, num_ids);
    for (uint32_t i = 0; i < num_ids; i++)
        put_u32(sink, (uint32_t)ids[i]);
}

void record_head(const struct record_sink *sink, const struct scheduler_config *config)
{
    sink->write(sink->context, RECORD_MAGIC, sizeof(RECORD_MAGIC) - 1);
    put_u32(sink, (uint32_t)config->page_size);
    put_u32(sink, (uint32_t)config->num_pages);
    put_u32(sink, (uint32_t)config->max_running_reqs);
    put_u32(sink, (uint32_t)config->max_seq_len);
    put_u32(sink, (uint32_t)config->max_prefill_tokens);
    put_u32(sink, (uint32_t)config->max_queued);
    put_u32(sink, (uint32_t)config->vocab_size);
    put_u32(sink, (uint32_t)config->cache_type);
    put_u32(sink, (uint32_t)config->policy);
    put_u32(sink, (uint32_t)config->queue_order);
    put_ids(sink, config->eos_ids, (uint32_t)config->num_eos_ids);
}

void record_submit(const struct record_sink *sink, const struct request_msg *request)
{
    const struct sampling *sampling = &request->sampling;
    int32_t num_stop_ids = sampling->num_stop_token_ids;

    put_u8(sink, RECORD_SUBMIT);
    put_u64(sink, request->uid);
    sink->write(sink->context, request->client.bytes, sizeof(request->client.bytes));
    put_float(sink, sampling->temperature);
    put_float(sink, sampling->top_p);
    put_float(sink, sampling->min_p);
    put_u32(sink, (uint32_t)sampling->top_k);
    put_u32(sink, (uint32_t)sampling->max_tokens);
    put_u64(sink, sampling->seed);
    put_u8(sink, sampling->ignore_eos);
    put_u32(sink, (uint32_t)request->reply_to.size);
    put_ids(sink, sampling->stop_token_ids, num_stop_ids < 0 ? 0 : (uint32_t)num_stop_ids);
    put_ids(sink, request->input_ids, (uint32_t)request->num_input_ids);
}

void record_abort(const struct record_sink *sink, const struct abort_msg *abort)
{
    put_u8(sink, abort->by_client ? RECORD_ABORT_CLIENT : RECORD_ABORT);
    if (abort->by_client)
        sink->write(sink->context, abort->client.bytes, sizeof(abort->client.bytes));
    else
        put_u64(sink, abort->uid);
}

void record_end_all(const struct record_sink *sink, enum error_code code)
{
    put_u8(sink, RECORD_END_ALL);
    put_u32(sink, (uint32_t)code);
}

void record_drain(const struct record_sink *sink)
{
    put_u8(sink, RECORD_DRAIN);
}

void record_flush_cache(const struct record_sink *sink)
{
    put_u8(sink, RECORD_FLUSH_CACHE);
}

void record_next_batch(const struct record_sink *sink, const struct batch *batch)
{
    put_u8(sink, batch ? RECORD_BATCH : RECORD_NO_BATCH);
    if (batch)
        put_u64(sink, record_digest(batch));
}

void record_finish_step(const struct record_sink *sink, const struct batch *batch,
                        const int32_t *tokens)
{
    put_u8(sink, RECORD_FINISH_STEP);
    put_ids(sink, tokens, (uint32_t)batch->num_rows);
}

/* ---- digest ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xD6E8FEB86659FD93);
    return hash ^ hash >> 32;
}

static uint64_t mix_float(uint64_t hash, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return mix(hash, bits);
}

static uint64_t mix_spans(uint64_t hash, const struct step_span *spans, int32_t num_spans)
{
    hash = mix(hash, (uint32_t)num_spans);
    for (int32_t i = 0; i < num_spans; i++) {
        hash = mix(hash, (uint32_t)spans[i].table_idx);
        hash = mix(hash, (uint32_t)spans[i].start);
        hash = mix(hash, (uint32_t)spans[i].len);
        hash = mix(hash, (uint32_t)spans[i].value);
    }
    return hash;
}

uint64_t record_digest(const struct batch *batch)
{
    uint64_t hash = mix((uint64_t)batch->step, (uint32_t)batch->num_rows);

    for (int32_t i = 0; i < batch->num_rows; i++) {
        const struct batch_row *row = &batch->rows[i];
        hash = mix(hash, row->seed);
        hash = mix(hash, (uint32_t)row->table_idx);
        hash = mix(hash, (uint64_t)(uint32_t)row->start << 32 | (uint32_t)row->extend_len);
        hash = mix(hash, row->samples);
        hash = mix_float(hash, row->temperature);
        hash = mix_float(hash, row->top_p);
        hash = mix_float(hash, row->min_p);
        hash = mix(hash, (uint32_t)row->top_k);
    }
    for (int32_t i = 0; i < batch->num_tokens; i++)
        hash =
            mix(hash, (uint64_t)(uint32_t)batch->positions[i] << 32 | (uint32_t)batch->out_loc[i]);
    hash = mix_spans(hash, batch->token_spans, batch->num_token_spans);
    hash = mix_spans(hash, batch->page_spans, batch->num_page_spans);
    for (int32_t i = 0; i < batch->num_values; i++)
        hash = mix(hash, (uint32_t)batch->values[i]);
    return hash ? hash : 1;
}
