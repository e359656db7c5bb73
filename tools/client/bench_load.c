/* bench_load.c - see bench_load.h. */
#include "tools/client/bench_load.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/hash.h"
#include "tools/client/commands.h"

void bench_load_deinit(struct bench_load *load)
{
    free(load->requests);
    *load = (struct bench_load){0};
}

void bench_run_deinit(struct bench_run *run)
{
    free(run->samples);
    *run = (struct bench_run){0};
}

static void draw_prompt(const struct bench_load *load, size_t index, int32_t *ids)
{
    const struct bench_request *request = &load->requests[index];
    uint64_t own = hash_mix(load->seed + 0x9E3779B97F4A7C15u * (index + 1));
    uint64_t shared = hash_mix(load->seed ^ hash_mix((uint64_t)request->prefix + 1));

    for (int32_t i = 0; i < request->prompt_tokens; i++) {
        uint64_t stream = i < request->prefix_tokens ? shared : own;
        ids[i] = (int32_t)(hash_mix(stream + 0x9E3779B97F4A7C15u * ((uint64_t)i + 1)) %
                           (uint64_t)load->id_limit);
    }
}

static struct status send_request(struct client *client, const struct bench_load *load,
                                  size_t index, int32_t *ids, struct bench_sample *sample)
{
    struct generate_msg msg = client_generate_defaults();
    uint64_t call;

    draw_prompt(load, index, ids);
    msg.prompt_kind = PROMPT_IDS;
    msg.input_ids = ids;
    msg.num_input_ids = (size_t)load->requests[index].prompt_tokens;
    msg.has_max_tokens = true;
    msg.sampling.max_tokens = load->requests[index].max_tokens;
    msg.sampling.temperature = load->temperature;
    msg.sampling.ignore_eos = true;
    msg.want_ids = true; /* a token without text is seen too */
    msg.has_seed = true;
    msg.sampling.seed = hash_mix(load->seed + index);
    sample->sent_ns = clock_now_ns();
    return client_generate(client, &msg, sample, &call);
}

static void take_event(const struct client_event *event, struct bench_run *run)
{
    struct bench_sample *sample = event->user;
    int64_t now_ns = clock_now_ns();

    if (event->kind == CLIENT_DELTA && !sample->first_ns)
        sample->first_ns = sample->last_ns = now_ns;
    if (event->kind == CLIENT_DELTA && now_ns - sample->last_ns > sample->longest_gap_ns)
        sample->longest_gap_ns = now_ns - sample->last_ns;
    sample->last_ns = now_ns;
    if (event->delta) {
        sample->completion_tokens += event->delta->num_ids;
        run->tokens_seen += (uint64_t)event->delta->num_ids;
    }
    if (!event->is_last)
        return;
    sample->is_done = true;
    if (event->kind == CLIENT_ERROR) {
        sample->error = event->error;
        if (run->num_errors++ == 0)
            run->first_error = status_error(
                STATUS_INVALID, "%s: %.*s", error_code_name(event->error),
                (int)event->error_message.size, (const char *)event->error_message.data);
        return;
    }
    sample->prompt_tokens = event->delta->usage.prompt_tokens;
    sample->completion_tokens = event->delta->usage.completion_tokens;
    sample->cached_tokens = event->delta->usage.cached_tokens;
    sample->first_token_ns = event->delta->first_token_ns;
    sample->last_token_ns = event->delta->last_token_ns;
    run->prompt_tokens += sample->prompt_tokens;
    run->completion_tokens += sample->completion_tokens;
    run->cached_tokens += sample->cached_tokens;
}

/* Milliseconds until the next request is to be sent; 0: now; -1: none is left. */
static int wait_ms(const struct bench_load *load, size_t next, int64_t start_ns)
{
    if (next == load->num_requests)
        return -1;
    int64_t left_ns = start_ns + load->requests[next].arrival_ns - clock_now_ns();
    return left_ns <= 0 ? 0 : (int)(left_ns / 1000000) + 1;
}

static struct status drive(struct client *client, const struct bench_load *load, int32_t *ids,
                           struct bench_run *run)
{
    int64_t start_ns = clock_now_ns();
    size_t next = 0, num_done = 0;
    struct client_event event;

    while (num_done < load->num_requests) {
        int timeout_ms = wait_ms(load, next, start_ns);
        while (timeout_ms == 0) {
            struct status status = send_request(client, load, next, ids, &run->samples[next]);
            if (status.code == STATUS_NO_SPACE) {
                timeout_ms = 1; /* the queue is full: read, then go on */
                break;
            }
            if (status.code)
                return status;
            timeout_ms = wait_ms(load, ++next, start_ns);
        }
        if (client_next(client, timeout_ms, &event)) {
            take_event(&event, run);
            num_done += event.is_last;
            if (load->progress)
                progress_update(load->progress, run->tokens_seen);
            if (event.kind == CLIENT_ERROR && event.error == ERROR_SERVER_LOST)
                return status_error(STATUS_GONE, "the server was lost");
        } else if (command_interrupted()) {
            run->wall_s = (double)(clock_now_ns() - start_ns) / 1e9;
            run->completion_tokens = (int64_t)run->tokens_seen;
            return status_error(STATUS_INTERRUPTED, "interrupted after %zu of %zu requests",
                                num_done, load->num_requests);
        }
    }
    run->wall_s = (double)(clock_now_ns() - start_ns) / 1e9;
    return status_ok();
}

struct status bench_run_load(struct client *client, const struct bench_load *load,
                             struct bench_run *out)
{
    int32_t longest = 1;

    for (size_t i = 0; i < load->num_requests; i++)
        if (load->requests[i].prompt_tokens > longest)
            longest = load->requests[i].prompt_tokens;
    struct bench_run run = {.samples = calloc(load->num_requests + 1, sizeof(*run.samples)),
                            .num_samples = load->num_requests};
    int32_t *ids = malloc((size_t)longest * sizeof(*ids));
    struct status status = status_ok();
    if (!run.samples || !ids)
        status = status_error(STATUS_NO_MEMORY, "no memory for %zu requests", load->num_requests);
    if (!status.code)
        status = drive(client, load, ids, &run);
    if (!status.code || status.code == STATUS_INTERRUPTED) {
        *out = run;
        run = (struct bench_run){0};
    }
    free(ids);
    bench_run_deinit(&run);
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t num_values, double q)
{
    if (num_values == 0)
        return 0;
    qsort(values, num_values, sizeof(*values), compare);
    size_t at = (size_t)(q * (double)(num_values - 1) + 0.5);
    return values[at];
}
