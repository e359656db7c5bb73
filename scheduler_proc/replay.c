/* replay.c - see record.h: the reading half. */
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "scheduler_proc/record.h"
#include "scheduler_proc/record_format.h"

/* The bytes that are left. A read past the end gives zeros and sets is_cut. */
struct reader {
    const uint8_t *data;
    size_t size;
    bool is_cut;
};

struct replay {
    struct reader reader;
    struct arena arena; /* of one record */
    struct scheduler *scheduler;
    const struct batch *launched[2];
    int32_t num_launched;
    struct replay_result *result;
};

static const uint8_t *get_bytes(struct reader *reader, size_t size)
{
    const uint8_t *bytes = reader->data;

    if (size > reader->size) {
        reader->is_cut = true;
        reader->size = 0;
        return NULL;
    }
    reader->data += size;
    reader->size -= size;
    return bytes;
}

static uint8_t get_u8(struct reader *reader)
{
    const uint8_t *bytes = get_bytes(reader, 1);

    return bytes ? bytes[0] : 0;
}

static uint32_t get_u32(struct reader *reader)
{
    const uint8_t *b = get_bytes(reader, 4);

    return b ? b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24 : 0;
}

static int32_t get_i32(struct reader *reader)
{
    return (int32_t)get_u32(reader);
}

static uint64_t get_u64(struct reader *reader)
{
    uint64_t low = get_u32(reader);

    return low | (uint64_t)get_u32(reader) << 32;
}

static float get_float(struct reader *reader)
{
    uint32_t bits = get_u32(reader);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Ids in the arena; none, and is_cut, when the count is more than the bytes that are left hold. */
static const int32_t *get_ids(struct replay *replay, uint32_t *out_num_ids)
{
    struct reader *reader = &replay->reader;
    uint32_t num_ids = get_u32(reader);
    int32_t *ids = NULL;

    if (num_ids > reader->size / 4)
        get_bytes(reader, SIZE_MAX); /* cut */
    else
        ids = arena_alloc(&replay->arena, ((size_t)num_ids + 1) * sizeof(*ids));
    *out_num_ids = ids ? num_ids : 0;
    for (uint32_t i = 0; i < *out_num_ids; i++)
        ids[i] = get_i32(reader);
    return ids;
}

static struct client_id get_client(struct reader *reader)
{
    struct client_id client = {{0}};
    const uint8_t *bytes = get_bytes(reader, sizeof(client.bytes));

    if (bytes)
        memcpy(client.bytes, bytes, sizeof(client.bytes));
    return client;
}

/* ---- records ---- */

static struct status read_head(struct replay *replay)
{
    struct reader *reader = &replay->reader;
    const uint8_t *magic = get_bytes(reader, sizeof(RECORD_MAGIC) - 1);
    struct scheduler_config config = {0};
    uint32_t num_eos_ids = 0;

    if (!magic || memcmp(magic, RECORD_MAGIC, sizeof(RECORD_MAGIC) - 1) != 0)
        return status_error(STATUS_FORMAT, "not a scheduler's log");
    config.page_size = get_i32(reader);
    config.num_pages = get_i32(reader);
    config.max_running_reqs = get_i32(reader);
    config.max_seq_len = get_i32(reader);
    config.max_prefill_tokens = get_i32(reader);
    config.max_queued = get_i32(reader);
    config.vocab_size = get_i32(reader);
    config.cache_type = get_u32(reader) == CACHE_NAIVE ? CACHE_NAIVE : CACHE_RADIX;
    config.policy = get_u32(reader) == POLICY_MIXED ? POLICY_MIXED : POLICY_PREFILL_FIRST;
    config.queue_order = get_u32(reader) == ORDER_CACHED ? ORDER_CACHED : ORDER_ARRIVAL;
    config.eos_ids = get_ids(replay, &num_eos_ids);
    config.num_eos_ids = (int32_t)num_eos_ids;
    if (reader->is_cut)
        return status_error(STATUS_FORMAT, "a scheduler's log, cut in its head");
    return scheduler_create(&config, &replay->scheduler);
}

static void replay_submit(struct replay *replay)
{
    static const uint8_t reply_to[MAX_REPLY_TO_BYTES + 1];
    struct reader *reader = &replay->reader;
    struct request_msg request = {0};
    struct sampling *sampling = &request.sampling;
    uint32_t num_ids = 0, reply_to_size;

    request.uid = get_u64(reader);
    request.client = get_client(reader);
    sampling->temperature = get_float(reader);
    sampling->top_p = get_float(reader);
    sampling->min_p = get_float(reader);
    sampling->top_k = get_i32(reader);
    sampling->max_tokens = get_i32(reader);
    sampling->seed = get_u64(reader);
    sampling->ignore_eos = get_u8(reader) != 0;
    reply_to_size = get_u32(reader);
    sampling->stop_token_ids = get_ids(replay, &num_ids);
    sampling->num_stop_token_ids = (int32_t)num_ids;
    request.input_ids = get_ids(replay, &num_ids);
    request.num_input_ids = num_ids;
    request.reply_to.data = reply_to;
    request.reply_to.size = reply_to_size < sizeof(reply_to) ? reply_to_size : sizeof(reply_to);
    if (reader->is_cut)
        return;
    scheduler_submit(replay->scheduler, &request);
    replay->result->num_requests++;
}

static void replay_abort(struct replay *replay, bool by_client)
{
    struct abort_msg abort = {.by_client = by_client};

    if (by_client)
        abort.client = get_client(&replay->reader);
    else
        abort.uid = get_u64(&replay->reader);
    if (!replay->reader.is_cut)
        scheduler_abort(replay->scheduler, &abort);
}

static struct status replay_batch(struct replay *replay, bool was_formed)
{
    uint64_t digest = was_formed ? get_u64(&replay->reader) : 0;
    long long step = replay->result->num_steps;

    if (replay->reader.is_cut)
        return status_ok();
    const struct batch *batch = scheduler_next_batch(replay->scheduler);
    if ((batch != NULL) != was_formed)
        return status_error(STATUS_INVALID, "step %lld was%s formed, and is%s", step,
                            was_formed ? "" : " not", batch ? "" : " not");
    if (!batch)
        return status_ok();
    if (record_digest(batch) != digest)
        return status_error(STATUS_INVALID, "step %lld is not the one of the log", step);
    replay->launched[replay->num_launched++] = batch;
    replay->result->num_steps++;
    return status_ok();
}

static struct status replay_finish_step(struct replay *replay)
{
    uint32_t num_rows = 0;
    const int32_t *tokens = get_ids(replay, &num_rows);

    if (replay->reader.is_cut)
        return status_ok();
    if (replay->num_launched == 0 || num_rows != (uint32_t)replay->launched[0]->num_rows)
        return status_error(STATUS_FORMAT, "result of %u rows for a step that is not there",
                            num_rows);
    scheduler_finish_step(replay->scheduler, replay->launched[0], tokens);
    replay->launched[0] = replay->launched[1];
    replay->num_launched--;
    return status_ok();
}

static struct status replay_record(struct replay *replay)
{
    uint8_t kind = get_u8(&replay->reader);

    switch (kind) {
    case RECORD_SUBMIT:
        replay_submit(replay);
        return status_ok();
    case RECORD_ABORT:
    case RECORD_ABORT_CLIENT:
        replay_abort(replay, kind == RECORD_ABORT_CLIENT);
        return status_ok();
    case RECORD_END_ALL:
        scheduler_end_all(replay->scheduler, (enum error_code)get_u32(&replay->reader));
        return status_ok();
    case RECORD_DRAIN:
        scheduler_drain(replay->scheduler);
        return status_ok();
    case RECORD_FLUSH_CACHE:
        scheduler_flush_cache(replay->scheduler);
        return status_ok();
    case RECORD_BATCH:
    case RECORD_NO_BATCH:
        return replay_batch(replay, kind == RECORD_BATCH);
    case RECORD_FINISH_STEP:
        return replay_finish_step(replay);
    default:
        return status_error(STATUS_FORMAT, "%u is no kind of record", kind);
    }
}

static void count_outputs(struct replay *replay)
{
    int32_t num_rows = 0;
    const struct token_row *rows = scheduler_outputs(replay->scheduler, &num_rows);

    for (int32_t i = 0; i < num_rows; i++)
        replay->result->num_tokens += rows[i].token != TOKEN_NONE;
    scheduler_clear_outputs(replay->scheduler);
}

struct status replay_run(const uint8_t *data, size_t size, struct replay_result *out)
{
    struct replay replay = {.reader = {.data = data, .size = size}, .result = out};
    struct status status;

    *out = (struct replay_result){0};
    arena_init(&replay.arena, 0, 0);
    status = read_head(&replay);
    while (!status.code && replay.reader.size > 0) {
        arena_reset(&replay.arena);
        status = replay_record(&replay);
        count_outputs(&replay);
    }
    out->is_cut = replay.reader.is_cut;
    if (replay.scheduler) {
        struct status check = scheduler_check(replay.scheduler);
        out->is_broken = check.code != STATUS_OK;
        status = status.code ? status : check;
    }
    scheduler_destroy(&replay.scheduler);
    arena_deinit(&replay.arena);
    return status;
}
