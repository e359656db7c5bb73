/*
 * cudaTypedefs.h - see cuda.h beside it.
 */
#ifndef TESTS_GPU_EMULATED_INCLUDE_CUDATYPEDEFS_H
#define TESTS_GPU_EMULATED_INCLUDE_CUDATYPEDEFS_H

#include <cuda.h>

typedef CUresult (*PFN_cuTensorMapEncodeTiled_v12000)(CUtensorMap *out, int type, cuuint32_t rank,
                                                      void *base, const cuuint64_t *sizes,
                                                      const cuuint64_t *strides,
                                                      const cuuint32_t *box,
                                                      const cuuint32_t *steps, int interleave,
                                                      int swizzle, int promotion, int fill);

#endif
