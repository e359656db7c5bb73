/* sim.c - see sim.h. */
#include "scheduler_proc/sim.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"

enum { NUM_PROBES = 4 };

/* One step in the stream. */
struct sim_call {
    struct sim *sim;
    struct model_step step;
};

struct sim {
    const struct device_ops *device_ops;
    struct sim_config config;
    int32_t vocab_size;
    uint64_t num_steps;
    struct sim_call calls[SIM_MAX_STEPS];
};

size_t sim_slot_bytes(void)
{
    return sizeof(uint64_t);
}

static uint64_t *slot_of(const struct model_step *step, int32_t table_idx, int32_t position)
{
    int32_t page =
        step->page_table[(size_t)table_idx * step->page_table_stride + position / step->page_size];

    return (uint64_t *)step->kv_cache + (size_t)page * step->page_size + position % step->page_size;
}

static void compute_token(const struct model_step *step, int32_t t)
{
    int32_t table_idx = step->inputs.token_table_idx[t], position = step->inputs.positions[t];
    int32_t token = step->token_pool[(size_t)table_idx * step->token_pool_stride + position];
    uint64_t before = position > 0 ? *slot_of(step, table_idx, position - 1) : 0;
    uint64_t here = (uint64_t)(uint32_t)position << 32 | (uint32_t)token;

    ((uint64_t *)step->kv_cache)[step->inputs.out_loc[t]] =
        sample_mix(before + sample_mix(here + 1));
}

static int32_t next_token(const struct sim *sim, const struct model_step *step, int32_t r)
{
    int32_t table_idx = step->inputs.row_table_idx[r], last = step->inputs.kv_lens[r] - 1;
    uint64_t hash = *slot_of(step, table_idx, last);

    for (uint64_t i = 0; i < NUM_PROBES; i++) {
        uint64_t probe = sample_mix(((uint64_t)(uint32_t)last << 8) + i + 1) % ((uint64_t)last + 1);
        hash = sample_mix(hash + *slot_of(step, table_idx, (int32_t)probe));
    }
    if (step->inputs.temperature[r] > 0 && step->inputs.top_k[r] != 1)
        hash = sample_mix(hash ^ sample_mix(step->inputs.seed[r]));
    return (int32_t)(hash % (uint64_t)sim->vocab_size);
}

static void wait_until(int64_t time_ns)
{
    struct timespec time = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        ;
}

static void run(void *arg)
{
    const struct sim_call *call = arg;
    const struct model_step *step = &call->step;
    const struct sim_config *config = &call->sim->config;
    int64_t begin_ns = clock_now_ns();

    for (int32_t t = 0; t < step->num_tokens; t++)
        compute_token(step, t);
    for (int32_t r = 0; r < step->num_rows; r++) {
        int32_t token = next_token(call->sim, step, r);
        step->token_pool[(size_t)step->inputs.sample_table_idx[r] * step->token_pool_stride +
                         step->inputs.sample_pos[r]] = token;
        step->results[r] = token;
    }
    ++*step->step_counter;
    int64_t cost_ns = config->step_ns + config->token_ns * step->num_tokens;
    if (cost_ns > 0)
        wait_until(begin_ns + cost_ns);
}

struct status sim_create(const struct backend *backend, int32_t vocab_size,
                         const struct sim_config *config, struct sim **out)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    if (!sim)
        return status_error(STATUS_NO_MEMORY, "sim: no memory");
    sim->device_ops = backend->device;
    sim->config = *config;
    sim->vocab_size = vocab_size;
    *out = sim;
    return status_ok();
}

void sim_destroy(struct sim **sim)
{
    free(*sim);
    *sim = NULL;
}

struct status sim_forward(struct sim *sim, struct stream *stream, const struct model_step *step)
{
    struct sim_call *call = &sim->calls[sim->num_steps++ % SIM_MAX_STEPS];

    *call = (struct sim_call){.sim = sim, .step = *step};
    return sim->device_ops->call(stream, run, call);
}
