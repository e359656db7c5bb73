/*
 * gpu.h - a Hopper card for the host's compiler: kernels of kernels/cuda run as they are written,
 * where there is no card.
 *
 * In include/ are headers of the names of those in kernels/cuda that hold a card's instructions
 * (and of the two of CUDA that tma.cuh includes); the compiler finds them first. All else is the
 * real text.
 *
 * A block is a thread of the host. Its own threads take turns there, each on a stack of its own,
 * warps in an order that is never the same; blocks of a cluster run side by side, clusters one
 * after another, in an order that is never the same either. What a card does in the background is
 * done at once or late, as the delays say: wgmma and copies of 16 bytes when they are waited for,
 * those of the copy engine at any moment until then. Arrivals at other blocks are always late.
 *
 * Not emulated: time, the order of writes to memory, kernels that overlap (pdl_wait() returns at
 * once, but copies are held to it), what a descriptor says besides the place, fences,
 * registers, how many clusters fit.
 */
#ifndef TESTS_GPU_EMULATED_GPU_H
#define TESTS_GPU_EMULATED_GPU_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include <functional>

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
        : x(x_size), y(y_size), z(z_size)
    {
    }
};

extern thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { WARP = 32 };

/* What is late. */
extern struct emulated_delays {
    bool copies, products;
} emulated_delays;

/* Runs a kernel to its end. A fault ends the program with a line on stderr that names it. */
void emulated_launch(unsigned num_blocks, int cluster, int num_threads, size_t shared_bytes,
                     const std::function<void()> &kernel);

/* Who and where a thread is, and whom it waits for. */
int emulated_rank();
int emulated_cluster_size();
void emulated_warp_sync();
void emulated_threads_sync(int num_threads); /* the first of the block */
void emulated_block_sync();
void emulated_cluster_meet();
void emulated_cluster_sync(); /* the same when arrivals at other blocks are there */

/* Whether the kernel before writes there, as the test has it (NULL: nowhere): a copy
 * from there, by a thread that has not waited for that kernel, is a fault. So is a kernel none of
 * whose threads waits. */
extern bool (*emulated_is_new)(const void *from);
void emulated_pdl_wait();

/* Addresses of shared memory: an offset, and in the upper eight bits 0 for the own block, or the
 * rank + 1 of another one of the cluster. */
uint32_t emulated_address(const void *shared);
unsigned char *emulated_shared(uint32_t address, size_t size);

/* Every lane of a warp gives num words, and gets what all have given: [WARP]. */
struct emulated_words {
    uint32_t v[8];
};
const struct emulated_words *emulated_exchange(const uint32_t *words, int num);

/* Barriers that count bytes, and copies of the box of map that begins at at[4]: to this block, or
 * to the blocks of the cluster that have a bit. */
void emulated_barrier_init(uint32_t barrier, int count);
void emulated_barrier_arrive(uint32_t barrier);
void emulated_barrier_expect(uint32_t barrier, int bytes);
void emulated_barrier_wait(uint32_t barrier, int parity);
void emulated_copy(uint32_t to, const CUtensorMap *map, const int *at, uint32_t barrier,
                   uint32_t blocks);
/* As the driver's cuTensorMapEncodeTiled. */
CUresult emulated_encode(CUtensorMap *out, int type, cuuint32_t rank, void *base,
                         const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                         const cuuint32_t *steps, int interleave, int swizzle, int promotion,
                         int fill);

/* A thread's own copies of 16 bytes, of zeros where from is NULL; how many others the last launch
 * has made. */
void emulated_piece(uint32_t to, const void *from);
void emulated_pieces_commit();
void emulated_pieces_wait(int left);
size_t emulated_pieces_read();

/* c [64, n] += a [64, 16] b [n, 16]^T, as wgmma.cuh has it. */
void emulated_wgmma(float *c, uint64_t a, uint64_t b, int n);
void emulated_wgmma_commit();
void emulated_wgmma_wait(int left);

#endif
