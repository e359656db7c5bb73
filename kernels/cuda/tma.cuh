/*
 * tma.cuh - Hopper's copy engine (compute capability 9.0): tiles of a matrix of bfloat16 go from
 * memory to shared memory at the word of one thread, and a barrier there counts the bytes.
 *
 * A tile is [rows, TILE_K], a row 128 bytes, and begins at a multiple of 1024 bytes. The engine
 * swaps the 16-byte pieces of each row about (piece ^ row % 8), as the tensor cores like it best
 * (wgmma.cuh). What lies beyond the matrix arrives as zeros.
 */
#ifndef KERNELS_CUDA_TMA_CUH
#define KERNELS_CUDA_TMA_CUH

#include <cuda.h>
#include <cudaTypedefs.h>

#include "kernels/cuda/copy_async.cuh"

enum { TILE_K = 64, TILE_ROW_BYTES = TILE_K * 2, TILE_ALIGNMENT = 1024 };

/* Tiles of box_rows (at most 256) by TILE_K out of matrix [rows, k]; k % 8 == 0. */
static inline struct status tile_map_init(const struct device *device, const void *matrix,
                                          int64_t rows, int64_t k, int box_rows, CUtensorMap *out)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        (PFN_cuTensorMapEncodeTiled_v12000)device->encode_tiled;
    const cuuint64_t sizes[2] = {(cuuint64_t)k, (cuuint64_t)rows}, stride = (cuuint64_t)k * 2;
    const cuuint32_t box[2] = {TILE_K, (cuuint32_t)box_rows}, steps[2] = {1, 1};
    CUresult error =
        encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)matrix, sizes, &stride, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    if (error)
        return status_error(STATUS_DEVICE, "a map of [%lld, %lld]: CUDA error %d", (long long)rows,
                            (long long)k, (int)error);
    return status_ok();
}

/*
 * Tiles of box_rows (at most 256) rows of each of parts matrices [rows, k], which lie one behind
 * the other; box_chunks of such tiles side by side over k come at once, one behind the other. k % 8
 * == 0, and k % TILE_K == 0 where there is more than one.
 */
static inline struct status tiles_map_init(const struct device *device, const void *matrix,
                                           int64_t rows, int parts, int64_t k, int box_rows,
                                           int box_chunks, CUtensorMap *out)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode =
        (PFN_cuTensorMapEncodeTiled_v12000)device->encode_tiled;
    const cuuint64_t sizes[4] = {TILE_K, (cuuint64_t)rows, (cuuint64_t)parts,
                                 (cuuint64_t)(k / TILE_K)};
    const cuuint64_t strides[3] = {(cuuint64_t)k * 2, (cuuint64_t)(rows * k) * 2, TILE_ROW_BYTES};
    const cuuint32_t box[4] = {TILE_K, (cuuint32_t)box_rows, (cuuint32_t)parts,
                               (cuuint32_t)box_chunks};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    CUresult error =
        encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)matrix, sizes, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    if (error)
        return status_error(STATUS_DEVICE, "a map of [%d, %lld, %lld]: CUDA error %d", parts,
                            (long long)rows, (long long)k, (int)error);
    return status_ok();
}

#if __CUDA_ARCH__ >= 900

/* A barrier of 8 bytes in shared memory: a phase ends with the last of count arrivals and of the
 * bytes that were expected. Phases are told apart by their parity, the first is 0. */
static __device__ __forceinline__ void barrier_init(uint32_t barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/* To be called by who has made barriers, before others learn of them. */
static __device__ __forceinline__ void barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

static __device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t barrier, int parity)
{
    uint32_t is_done;

    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(is_done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!is_done);
}

/* The tile that begins at (row, column), to be counted by barrier. */
static __device__ __forceinline__ void tile_load(uint32_t to, const CUtensorMap *map, int row,
                                                 int column, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

/* The tiles that begin at row and at chunk, of a map by tiles_map_init(). */
static __device__ __forceinline__ void tiles_load(uint32_t to, const CUtensorMap *map, int row,
                                                  int chunk, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %2, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier)
                 : "memory");
}

static __device__ __forceinline__ void tile_map_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#endif
#endif
