/*
 * fault.cu - an operator with a bad pointer, for tests of what a fault of the device does to those
 * who wait for it. No step has it in it but one that is asked for by --fault-step.
 */
#include "kernels/cuda/cuda_util.cuh"

static __global__ void fault_kernel(int32_t *nowhere)
{
    pdl_wait();
    *nowhere = 1;
}

extern "C" struct status fault_cuda(struct stream *stream)
{
    int32_t *nowhere = (int32_t *)8; /* null's own page: no allocation is ever there */

    return cuda_launched(stream, launch(stream, fault_kernel, dim3(1), 1, 0, nowhere), "fault");
}
