/*
 * moe_product.cuh - what the kernels of a grouped product share: which block multiplies what, how
 * its operands come to shared memory, where its results go.
 *
 * A block multiplies the rows of one tile by 2 * HALF rows of its expert's weight: HALF of gate and
 * the same HALF of up, or 2 * HALF of down in a row. So the thread that has a sum of gate has that
 * of up, too. Blocks of the same tile come one after the other, then those of the next tile, which
 * is most often the same expert's: its weight is in the second-level cache by then.
 *
 * k is walked STEP at a time. A stage in shared memory is the tile [ROWS, STEP] of x, then that of
 * the weight [2 * HALF, STEP]: a row is 128 bytes, whose 16-byte pieces are swapped about by row
 * (piece ^ row % 8), so that the tensor cores' loads meet no bank twice. What lies beyond the tile
 * or the matrix arrives as zeros.
 */
#ifndef KERNELS_CUDA_MOE_PRODUCT_CUH
#define KERNELS_CUDA_MOE_PRODUCT_CUH

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/moe.cuh"

enum { STEP = 64, ROW_BYTES = STEP * 2, PIECES = STEP / 8 };

template <int HALF, bool GATED> static __host__ __device__ __forceinline__ int num_columns()
{
    return GATED ? HALF : 2 * HALF;
}

/* The grid: columns change fastest. */
template <int HALF, bool GATED> static dim3 product_grid(const struct moe_product *p)
{
    return dim3((unsigned)ceil_div(p->n, num_columns<HALF, GATED>()) * (unsigned)p->num_tiles);
}

/* A block's part of it. */
struct product_part {
    struct moe_tile tile;
    int first_column; /* of y */
};

template <int HALF, bool GATED>
static __device__ __forceinline__ struct product_part find_part(const struct moe_product *p)
{
    int num_blocks = (p->n + num_columns<HALF, GATED>() - 1) / num_columns<HALF, GATED>();
    struct product_part part;

    part.tile = p->tiles[(int)blockIdx.x / num_blocks];
    part.first_column = (int)blockIdx.x % num_blocks * num_columns<HALF, GATED>();
    return part;
}

/* Where the piece-th 16 bytes of a row lie in a tile. */
static __device__ __forceinline__ uint32_t place(int row, int piece)
{
    return (uint32_t)(row * ROW_BYTES + (piece ^ row % 8) * 16);
}

/* From where a thread copies: one piece of every AT_ONCE-th row. */
template <int ROWS, int HALF, int THREADS> struct feed {
    enum { AT_ONCE = THREADS / PIECES };
    const __nv_bfloat16 *x[ROWS / AT_ONCE];
    const __nv_bfloat16 *weight[2]; /* the thread's first row of each half */
    int num_rows, num_in_half[2];   /* that there are, and that may be copied */
    int k;
};

template <int ROWS, int HALF, int THREADS, bool GATED>
static __device__ __forceinline__ void feed_init(struct feed<ROWS, HALF, THREADS> *f,
                                                 const struct moe_product *p,
                                                 const struct product_part *part)
{
    enum { AT_ONCE = THREADS / PIECES };
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
    size_t k = (size_t)p->k;
    size_t first = (size_t)part->tile.expert * (size_t)(GATED ? 2 * p->n : p->n) +
                   (size_t)(part->first_column + row);

    static_assert(AT_ONCE % 8 == 0 && ROWS % AT_ONCE == 0 && HALF % AT_ONCE == 0, "");
#pragma unroll
    for (int i = 0; i < ROWS / AT_ONCE; i++) {
        int at = part->tile.first + min(row + i * AT_ONCE, part->tile.num_rows - 1);
        int from = GATED ? p->order[at] / p->top_k : at;

        f->x[i] = p->x + (size_t)from * k + piece * 8;
    }
    f->weight[0] = p->weight + first * k + piece * 8;
    f->weight[1] = f->weight[0] + (size_t)(GATED ? p->n : HALF) * k;
    f->num_rows = part->tile.num_rows;
    f->num_in_half[0] = p->n - part->first_column;
    f->num_in_half[1] = p->n - part->first_column - (GATED ? 0 : HALF);
    f->k = p->k;
}

/* The operands of a step, to that stage. */
template <int ROWS, int HALF, int THREADS>
static __device__ __forceinline__ void feed_copy(const struct feed<ROWS, HALF, THREADS> *f,
                                                 uint32_t stage, int step)
{
    enum { AT_ONCE = THREADS / PIECES, IN_HALF = HALF / AT_ONCE };
    int row = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES, at = step * STEP;
    bool is_inside = at + piece * 8 < f->k;
    uint32_t to = stage + place(row, piece);

#pragma unroll
    for (int i = 0; i < ROWS / AT_ONCE; i++)
        copy_async(to + i * AT_ONCE * ROW_BYTES, f->x[i] + at,
                   is_inside && row + i * AT_ONCE < f->num_rows);
    to += ROWS * ROW_BYTES;
#pragma unroll
    for (int i = 0; i < 2 * IN_HALF; i++) {
        int in_half = i % IN_HALF * AT_ONCE;

        copy_async(to + i * AT_ONCE * ROW_BYTES,
                   f->weight[i / IN_HALF] + (size_t)in_half * (size_t)f->k + at,
                   is_inside && row + in_half < f->num_in_half[i / IN_HALF]);
    }
}

/* Begins the block's part: its first AHEAD steps are on their way to their stages, each a group of
 * copies. False when the tile has no rows. */
template <int AHEAD, bool GATED, int ROWS, int HALF, int THREADS>
static __device__ __forceinline__ bool begin_part(const struct moe_product *p, uint32_t stages,
                                                  struct product_part *part,
                                                  struct feed<ROWS, HALF, THREADS> *feed)
{
    pdl_launch();
    pdl_wait();
    *part = find_part<HALF, GATED>(p);
    if (part->tile.num_rows == 0)
        return false;
    feed_init<ROWS, HALF, THREADS, GATED>(feed, p, part);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (i * STEP < p->k)
            feed_copy(feed, stages + i * ((ROWS + 2 * HALF) * ROW_BYTES), i);
        copies_commit();
    }
    return true;
}

/* The row of y that a row of the tile becomes, at the block's first column. */
template <bool GATED>
static __device__ __forceinline__ __nv_bfloat16 *row_of(const struct moe_product *p,
                                                        const struct product_part *part, int row)
{
    int at = part->tile.first + row;

    return p->y + (size_t)(GATED ? at : p->order[at]) * (size_t)p->n + part->first_column;
}

/*
 * Two sums of each half, of columns column and column + 1 of the half, to a row of row_of().
 * num_left: columns from the block's first on, of which n % 8 == 0 leaves 8 together or none.
 */
template <int HALF, bool GATED>
static __device__ __forceinline__ void put_sums(__nv_bfloat16 *y, int column, int num_left,
                                                const float *first, const float *second)
{
    if (GATED) {
        if (column < num_left)
            *(uint32_t *)(y + column) =
                pack_bf16(silu_mul(first[0], second[0]), silu_mul(first[1], second[1]));
        return;
    }
    if (column < num_left)
        *(uint32_t *)(y + column) = pack_bf16(first[0], first[1]);
    if (HALF + column < num_left)
        *(uint32_t *)(y + HALF + column) = pack_bf16(second[0], second[1]);
}

#endif
