/* req.c - see req.h. */
#include "scheduler_proc/req.h"

#include <stdlib.h>
#include <string.h>

/* What is written last lies last, so that unused places of input_ids are never resident. */
struct status req_create(const struct request_msg *request, int32_t max_tokens, struct req **out)
{
    size_t num_stop_ids = (size_t)request->sampling.num_stop_token_ids;
    size_t num_ids = request->num_input_ids + (size_t)max_tokens;
    size_t size = sizeof(struct req) + request->reply_to.size;
    size_t stop_ids_at = (size + 3) / 4 * 4;
    size_t input_ids_at = stop_ids_at + num_stop_ids * sizeof(int32_t);
    uint8_t *memory = malloc(input_ids_at + num_ids * sizeof(int32_t));

    if (!memory)
        return status_error(STATUS_NO_MEMORY, "no memory for a prompt of %zu tokens",
                            request->num_input_ids);
    struct req *req = (void *)memory;
    uint8_t *reply_to = memory + sizeof(struct req);
    int32_t *stop_ids = (void *)(memory + stop_ids_at);
    *req = (struct req){
        .uid = request->uid,
        .state = REQ_QUEUED,
        .table_idx = TABLE_IDX_NONE,
        .prompt_len = (int32_t)request->num_input_ids,
        .num_ids = (int32_t)request->num_input_ids,
        .device_len = (int32_t)request->num_input_ids,
        .max_device_len = (int32_t)num_ids,
        .sampling = request->sampling,
        .input_ids = (void *)(memory + input_ids_at),
        .reply_to = {.data = reply_to, .size = request->reply_to.size},
    };
    req->sampling.max_tokens = max_tokens;
    req->sampling.stop_token_ids = stop_ids;
    memcpy(req->input_ids, request->input_ids, request->num_input_ids * sizeof(int32_t));
    if (num_stop_ids > 0)
        memcpy(stop_ids, request->sampling.stop_token_ids, num_stop_ids * sizeof(int32_t));
    if (request->reply_to.size > 0)
        memcpy(reply_to, request->reply_to.data, request->reply_to.size);
    *out = req;
    return status_ok();
}

void req_destroy(struct req **req)
{
    free(*req);
    *req = NULL;
}

void req_list_append(struct req_list *list, struct req *req)
{
    req->prev = list->last;
    req->next = NULL;
    *(list->last ? &list->last->next : &list->first) = req;
    list->last = req;
    list->num_reqs++;
}

void req_list_remove(struct req_list *list, struct req *req)
{
    *(req->prev ? &req->prev->next : &list->first) = req->next;
    *(req->next ? &req->next->prev : &list->last) = req->prev;
    req->prev = req->next = NULL;
    list->num_reqs--;
}
