/*
 * cuda_module.h - what minisgl_cuda.so exports: one function, which hands out the back end.
 */
#ifndef KERNELS_CUDA_MODULE_H
#define KERNELS_CUDA_MODULE_H

#include <stdint.h>

#include "kernels/ops.h"

/* Raised with every change to device.h, ops.h or step_block.h that moves a field. */
enum { BACKEND_ABI_VERSION = 5 };

#define CUDA_BACKEND_SYMBOL "minisgl_cuda_backend"

/* NULL where the module was built for another abi_version. */
typedef const struct backend *(*cuda_backend_function)(uint32_t abi_version);

#ifdef __cplusplus
extern "C"
#endif
    const struct backend *
    minisgl_cuda_backend(uint32_t abi_version);

#endif
