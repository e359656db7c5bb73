/* request_options.c - see request_options.h. */
#include "tools/client/request_options.h"

#include <string.h>

void request_options_deinit(struct request_options *options)
{
    option_list_deinit(&options->stops);
}

static struct status apply_stops(struct request_options *options, struct generate_msg *msg)
{
    const struct option_list *stops = &options->stops;

    if (stops->num_items > MAX_STOP_STRINGS)
        return status_error(STATUS_INVALID, "--stop may be given %d times at most",
                            MAX_STOP_STRINGS);
    for (size_t i = 0; i < stops->num_items; i++) {
        size_t size = strlen(stops->items[i]);
        if (size < 1 || size > MAX_STOP_STRING_BYTES)
            return status_error(STATUS_INVALID, "--stop takes 1 to %d bytes",
                                MAX_STOP_STRING_BYTES);
        options->stop_bytes[i] = (struct bytes){(const uint8_t *)stops->items[i], size};
    }
    msg->stops = options->stop_bytes;
    msg->num_stops = (int32_t)stops->num_items;
    return status_ok();
}

struct status request_options_apply(struct request_options *options, struct generate_msg *msg)
{
    struct sampling *sampling = &msg->sampling;

    if (options->temperature >= 0)
        sampling->temperature = (float)options->temperature;
    if (options->top_p >= 0)
        sampling->top_p = (float)options->top_p;
    if (options->min_p >= 0)
        sampling->min_p = (float)options->min_p;
    if (options->top_k >= -1)
        sampling->top_k = options->top_k < 0 ? 0 : (int32_t)options->top_k;
    if (options->max_tokens > 0) {
        sampling->max_tokens = (int32_t)options->max_tokens;
        msg->has_max_tokens = true;
    }
    sampling->seed = options->seed;
    msg->has_seed = options->has_seed;
    sampling->ignore_eos = options->ignore_eos;
    msg->skip_special = !options->show_special;
    return apply_stops(options, msg);
}
