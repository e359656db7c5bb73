/*
 * decode.c - the next token of every stream, in the order in which they began.
 *
 * Source: mini-sglang scheduler/decode.py.
 */
#include "scheduler_proc/scheduler_state.h"

/*
 * A stream whose row was remapped brings changed pages; when they do not fit the block, it and
 * those behind it are in the next step, where those before it bring next to nothing.
 */
void scheduler_form_decode(struct scheduler *scheduler, struct step *step)
{
    struct req *next;

    for (struct req *req = scheduler->decodes.first; req; req = next) {
        int32_t end = req->cached_len + 1;
        next = req->next;
        if (end > req->num_pages * scheduler->config.page_size)
            scheduler_extend_row(scheduler, req, end);
        if (!scheduler_has_room(scheduler, step, 1, req->num_pages - req->synced_pages))
            break;
        step_add_row(step, req, 1, scheduler->config.page_size);
        scheduler->num_decode_tokens++;
        if (req->device_len == req->max_device_len) {
            req_list_remove(&scheduler->decodes, req);
            req->state = REQ_LAUNCHED;
        }
    }
}
