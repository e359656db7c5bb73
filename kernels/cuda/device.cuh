/*
 * device.cuh - the clock of an opened card.
 */
#ifndef KERNELS_CUDA_DEVICE_CUH
#define KERNELS_CUDA_DEVICE_CUH

#include "kernels/cuda/cuda_util.cuh"

/* Sets base_event and base_ns anew. Waits some 10 us for an idle stream. */
struct status device_clock_sync(struct device *device);

#endif
