/*
 * linear_trial.cuh - which of several ways to do a layer is the fastest within a model.
 */
#ifndef KERNELS_CUDA_LINEAR_TRIAL_CUH
#define KERNELS_CUDA_LINEAR_TRIAL_CUH

#include "kernels/cuda/linear.cuh"

enum { TRIAL_MAX_WAYS = 32 };

/* Launches the layer the i-th way, also into a capture. false: it cannot be done that way. */
typedef bool linear_trial_way(struct stream *stream, const struct layer_args *args, int i,
                              void *ways);

/* The fastest of num ways, at most TRIAL_MAX_WAYS; -1: none was timed, for lack of memory or since
 * the device has failed. y and wide stay as they are. */
int linear_trial_fastest(struct stream *stream, const struct layer_args *args, int num,
                         linear_trial_way *run, void *ways);

#endif
