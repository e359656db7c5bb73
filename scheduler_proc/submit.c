/* submit.c - a request comes: it is checked, and queued or refused. */
#include "scheduler_proc/record.h"
#include "scheduler_proc/scheduler_state.h"

/* What is wrong with the request itself, whatever the load; messages name the field and the limit.
 */
static struct status check_request(const struct scheduler *scheduler,
                                   const struct request_msg *request)
{
    const struct sampling *sampling = &request->sampling;
    int32_t vocab_size = scheduler->config.vocab_size;

    if (request->uid == 0)
        return status_error(STATUS_INVALID, "uid: 0 is none");
    if (request->reply_to.size > MAX_REPLY_TO_BYTES)
        return status_error(STATUS_INVALID, "reply_to: %zu bytes, at most %d",
                            request->reply_to.size, MAX_REPLY_TO_BYTES);
    if (request->num_input_ids == 0)
        return status_error(STATUS_INVALID, "input_ids: empty, at least one token");
    if (sampling->max_tokens < 1)
        return status_error(STATUS_INVALID, "max_tokens: %d, at least 1", sampling->max_tokens);
    if (!(sampling->temperature >= 0.0F && sampling->temperature <= 100.0F))
        return status_error(STATUS_INVALID, "temperature: %g, 0 to 100",
                            (double)sampling->temperature);
    if (!(sampling->top_p >= 0.0F && sampling->top_p <= 1.0F))
        return status_error(STATUS_INVALID, "top_p: %g, 0 to 1", (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0F && sampling->min_p <= 1.0F))
        return status_error(STATUS_INVALID, "min_p: %g, 0 to 1", (double)sampling->min_p);
    if (sampling->top_k < 0)
        return status_error(STATUS_INVALID, "top_k: %d, at least 0", sampling->top_k);
    if (sampling->num_stop_token_ids < 0 || sampling->num_stop_token_ids > MAX_STOP_TOKEN_IDS)
        return status_error(STATUS_INVALID, "stop_token_ids: %d, at most %d",
                            sampling->num_stop_token_ids, MAX_STOP_TOKEN_IDS);
    for (int32_t i = 0; i < sampling->num_stop_token_ids; i++)
        if (sampling->stop_token_ids[i] < 0 || sampling->stop_token_ids[i] >= vocab_size)
            return status_error(STATUS_INVALID, "stop_token_ids: %d, the vocabulary has %d",
                                sampling->stop_token_ids[i], vocab_size);
    if (request->num_input_ids >= (size_t)scheduler->config.max_seq_len)
        return status_ok(); /* refused as too long, whatever its ids are */
    for (size_t i = 0; i < request->num_input_ids; i++)
        if (request->input_ids[i] < 0 || request->input_ids[i] >= vocab_size)
            return status_error(STATUS_INVALID, "input_ids[%zu]: %d, the vocabulary has %d", i,
                                request->input_ids[i], vocab_size);
    return status_ok();
}

static void reject(struct scheduler *scheduler, const struct request_msg *request,
                   enum error_code code, struct status status)
{
    scheduler->num_rejected++;
    outputs_add_rejection(&scheduler->outputs, request, code, status.msg);
}

void scheduler_submit(struct scheduler *scheduler, const struct request_msg *request)
{
    int32_t max_seq_len = scheduler->config.max_seq_len;
    int32_t max_tokens = request->sampling.max_tokens;
    struct status status = check_request(scheduler, request);
    enum error_code code = ERROR_INVALID_REQUEST;
    struct req *req = NULL;

    if (scheduler->sink.write)
        record_submit(&scheduler->sink, request);
    if (status.code)
        goto refused;
    if (req_table_find(&scheduler->table, request->uid)) {
        status = status_error(STATUS_INVALID, "uid: %llu is already there",
                              (unsigned long long)request->uid);
        goto refused;
    }
    if (request->num_input_ids >= (size_t)max_seq_len) {
        code = ERROR_TOO_LONG;
        status = status_error(STATUS_INVALID,
                              "input_ids: prompt of %zu tokens must be shorter than max_seq_len %d",
                              request->num_input_ids, max_seq_len);
        goto refused;
    }
    if (scheduler->draining) {
        code = ERROR_SHUTTING_DOWN;
        status = status_error(STATUS_GONE, "the server is shutting down");
        goto refused;
    }
    code = ERROR_OVERLOADED;
    if (scheduler->queue.num_reqs >= scheduler->config.max_queued) {
        status = status_error(STATUS_NO_SPACE, "%d requests are queued, at most %d",
                              scheduler->queue.num_reqs, scheduler->config.max_queued);
        goto refused;
    }
    if (max_tokens > max_seq_len - (int32_t)request->num_input_ids)
        max_tokens = max_seq_len - (int32_t)request->num_input_ids;
    if (!outputs_reserve(&scheduler->outputs,
                         scheduler->table.num_reqs + 1 + NUM_STEPS * scheduler->limits.max_rows)) {
        status = status_error(STATUS_NO_MEMORY, "no memory for one more request");
        goto refused;
    }
    status = req_create(request, max_tokens, &req);
    if (status.code)
        goto refused;
    scheduler->num_accepted++;
    req_table_add(&scheduler->table, req);
    client_table_add(&scheduler->clients, &request->client, req);
    req_list_append(&scheduler->queue, req);
    return;
refused:
    reject(scheduler, request, code, status);
}
