/*
 * tma.cuh - the copy engine of cards from 9.0 on: maps of matrices of bfloat16 whose tiles it takes
 * to shared memory, and a ring of them there.
 *
 * A tile is [rows, TILE_K], a row 128 bytes, and begins at a multiple of 1024 bytes. The engine
 * swaps the 16-byte pieces of each row about (piece ^ row % 8), as the tensor cores like it best
 * (wgmma.cuh). What lies beyond the matrix arrives as zeros.
 */
#ifndef KERNELS_CUDA_TMA_CUH
#define KERNELS_CUDA_TMA_CUH

#include <cudaTypedefs.h>

#include "kernels/cuda/barrier.cuh"
#include "kernels/cuda/copy_async.cuh"

enum { TILE_K = 64, TILE_ROW_BYTES = TILE_K * 2, TILE_ALIGNMENT = 1024 };

/* strides: in bytes, of all dimensions but the first. */
static inline struct status tile_map_encode(const struct device *device, const void *matrix,
                                            cuuint32_t rank, const cuuint64_t *sizes,
                                            const cuuint64_t *strides, const cuuint32_t *box,
                                            CUtensorMap *out)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        (PFN_cuTensorMapEncodeTiled_v12000)device->encode_tiled;
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUresult error =
        encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, (void *)matrix, sizes, strides, box,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    if (error)
        return status_error(STATUS_DEVICE, "a map of %llu rows of %llu bytes: CUDA error %d",
                            (unsigned long long)sizes[1], (unsigned long long)strides[0],
                            (int)error);
    return status_ok();
}

/* Tiles of box_rows (at most 256) by TILE_K out of matrix [rows, k]; k % 8 == 0. */
static inline struct status tile_map_init(const struct device *device, const void *matrix,
                                          int64_t rows, int64_t k, int box_rows, CUtensorMap *out)
{
    const cuuint64_t sizes[2] = {(cuuint64_t)k, (cuuint64_t)rows}, stride = (cuuint64_t)k * 2;
    const cuuint32_t box[2] = {TILE_K, (cuuint32_t)box_rows};

    return tile_map_encode(device, matrix, 2, sizes, &stride, box, out);
}

/*
 * Tiles of box_rows (at most 256) rows of each of parts matrices [rows, k], which lie one behind
 * the other; box_chunks of them, side by side over k, come at once, one behind the other. k %
 * TILE_K == 0. As the engine sees it k is two dimensions, the outer one with the smaller stride.
 */
static inline struct status tiles_map_init(const struct device *device, const void *matrix,
                                           int64_t rows, int parts, int64_t k, int box_rows,
                                           int box_chunks, CUtensorMap *out)
{
    const cuuint64_t sizes[4] = {TILE_K, (cuuint64_t)rows, (cuuint64_t)parts,
                                 (cuuint64_t)(k / TILE_K)};
    const cuuint64_t strides[3] = {(cuuint64_t)k * 2, (cuuint64_t)(rows * k) * 2, TILE_ROW_BYTES};
    const cuuint32_t box[4] = {TILE_K, (cuuint32_t)box_rows, (cuuint32_t)parts,
                               (cuuint32_t)box_chunks};

    return tile_map_encode(device, matrix, 4, sizes, strides, box, out);
}

#if __CUDA_ARCH__ >= 900

/*
 * Stages of shared memory that go round: stage s is filled when full[s] says so, and may be filled
 * again when empty[s] does.
 */
struct ring {
    uint32_t stages, full, empty; /* addresses; a stage begins at a multiple of TILE_ALIGNMENT */
    int bytes;                    /* of a stage */
};

static __device__ __forceinline__ uint32_t ring_stage(const struct ring *ring, int stage)
{
    return ring->stages + (uint32_t)(stage * ring->bytes);
}

/* To the stage behind this one, which in the next round has the other parity. */
static __device__ __forceinline__ void ring_next(int num_stages, int *stage, int *parity)
{
    if (++*stage == num_stages) {
        *stage = 0;
        *parity ^= 1;
    }
}

/*
 * A ring in dynamic shared memory, from the first multiple of TILE_ALIGNMENT on; barriers: two for
 * each of max_stages. Readers: arrivals that empty a stage. All threads call it, and then
 * __syncthreads(), or cluster_meet() where other blocks arrive or copy.
 */
static __device__ __forceinline__ struct ring ring_make(const void *dynamic,
                                                        const uint64_t *barriers, int max_stages,
                                                        int num_stages, int bytes, int readers)
{
    uint32_t full = shared_address(barriers), empty = full + max_stages * 8;
    uint32_t stages =
        (shared_address(dynamic) + TILE_ALIGNMENT - 1) / TILE_ALIGNMENT * TILE_ALIGNMENT;

    if (threadIdx.x == 0) {
        for (int i = 0; i < num_stages; i++) {
            barrier_init(full + i * 8, 1);
            barrier_init(empty + i * 8, readers);
        }
        barriers_made();
    }
    return {stages, full, empty, bytes};
}

#endif
#endif
