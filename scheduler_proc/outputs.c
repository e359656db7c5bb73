/* outputs.c - see outputs.h. */
#include "scheduler_proc/outputs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct status outputs_init(struct outputs *outputs, int32_t max_rows)
{
    *outputs = (struct outputs){0};
    arena_init(&outputs->arena, 0, 0);
    if (!outputs_reserve(outputs, max_rows))
        return status_error(STATUS_NO_MEMORY, "no memory for the output of %d rows", max_rows);
    return status_ok();
}

void outputs_deinit(struct outputs *outputs)
{
    outputs_clear(outputs);
    free(outputs->rows);
    free(outputs->rejections);
    arena_deinit(&outputs->arena);
    *outputs = (struct outputs){0};
}

bool outputs_reserve(struct outputs *outputs, int32_t num_rows)
{
    if (num_rows <= outputs->max_rows - outputs->num_rows)
        return true;
    int32_t max_rows = outputs->num_rows + num_rows + outputs->max_rows;
    struct token_row *rows = realloc(outputs->rows, (size_t)max_rows * sizeof(*rows));
    if (!rows)
        return false;
    outputs->rows = rows;
    outputs->max_rows = max_rows;
    return true;
}

void outputs_add_row(struct outputs *outputs, struct req *req, int32_t token,
                     enum finish_reason finish, enum error_code error)
{
    assert(outputs->num_rows < outputs->max_rows);
    struct token_row *row = &outputs->rows[outputs->num_rows++];
    *row = (struct token_row){.uid = req->uid, .token = token, .finish = finish, .error = error};
    if (req->has_output)
        return;
    req->has_output = true;
    row->is_first = true;
    row->reply_to = req->reply_to;
    row->num_prompt_tokens = req->prompt_len;
    row->num_cached_tokens = req->num_cached_tokens;
}

void outputs_add_rejection(struct outputs *outputs, const struct request_msg *request,
                           enum error_code code, const char *message)
{
    size_t size = strlen(message);

    if (outputs->num_rejections == outputs->max_rejections) {
        int32_t max = 2 * outputs->max_rejections + 16;
        struct rejected_msg *more = realloc(outputs->rejections, (size_t)max * sizeof(*more));
        if (!more)
            return;
        outputs->rejections = more;
        outputs->max_rejections = max;
    }
    char *text = arena_copy(&outputs->arena, message, size);
    char *reply_to = arena_alloc(&outputs->arena, request->reply_to.size);
    if (!text || !reply_to)
        return;
    if (request->reply_to.size > 0)
        memcpy(reply_to, request->reply_to.data, request->reply_to.size);
    outputs->rejections[outputs->num_rejections++] = (struct rejected_msg){
        .uid = request->uid,
        .code = code,
        .message = {.data = (const uint8_t *)text, .size = size},
        .reply_to = {.data = (const uint8_t *)reply_to, .size = request->reply_to.size},
    };
}

void outputs_add_ended(struct outputs *outputs, struct req **req)
{
    (*req)->next = outputs->ended;
    outputs->ended = *req;
    *req = NULL;
}

void outputs_clear(struct outputs *outputs)
{
    while (outputs->ended) {
        struct req *req = outputs->ended;
        outputs->ended = req->next;
        req_destroy(&req);
    }
    outputs->num_rows = 0;
    outputs->num_rejections = 0;
    arena_reset(&outputs->arena);
}
