/* fast_sample.h - what the fast sampler needs of the workspace. */
#ifndef KERNELS_CPU_FAST_SAMPLE_H
#define KERNELS_CPU_FAST_SAMPLE_H

enum { SAMPLE_TOKEN_SIZE = 16 }; /* bytes for each token of the vocabulary and each thread */

#endif
