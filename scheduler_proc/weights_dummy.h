/*
 * weights_dummy.h - values in place of weights: for tests and measurements that no file is behind.
 *
 * Any name is found, with any shape of at most max_count elements. All are cut from one buffer, so
 * they must be copied, not borrowed. Norms (names that end in norm.weight) are ones, all else is
 * uniform with a standard deviation of 0.02.
 */
#ifndef SCHEDULER_PROC_WEIGHTS_DUMMY_H
#define SCHEDULER_PROC_WEIGHTS_DUMMY_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/ops.h"

struct weights_dummy {
    void *random;        /* owned: what every tensor is cut from */
    void *ones;          /* owned: what norms are cut from */
    size_t random_count; /* elements of random; 0: there are no dummies */
    enum dtype dtype;
};

/* A zero is an empty one, and deinit takes it. */
MUST_CHECK struct status weights_dummy_init(struct weights_dummy *dummy, enum dtype dtype,
                                            size_t max_count);
void weights_dummy_deinit(struct weights_dummy *dummy);

/* count elements, the same for a name each time; borrowed from the dummy. */
MUST_CHECK struct status weights_dummy_get(const struct weights_dummy *dummy, const char *name,
                                           size_t count, const void **out);

#endif
