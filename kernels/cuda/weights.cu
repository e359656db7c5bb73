/*
 * weights.cu - matrices from mapped files to the device: through two pinned buffers, straight into
 * the fused [n, k] layout, so that the host holds no second copy. While one buffer is on its way
 * the other is filled, by COPIERS threads: one alone does not keep up with the bus.
 *
 * Parts of another dtype travel as they are and are converted by a kernel on the device.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/linear.cuh"

template <typename D, typename S>
static __global__ void convert_kernel(D *dst, const S *src, size_t n)
{
    pdl_wait();
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        store_float(&dst[i], to_float(src[i]));
}

static cudaError_t convert(struct stream *stream, void *dst, enum dtype dst_dtype, const void *src,
                           enum dtype src_dtype, size_t n)
{
    dim3 grid((unsigned)(ceil_div((int64_t)n, 256) < 4096 ? ceil_div((int64_t)n, 256) : 4096));
    float *f32 = (float *)dst;
    __nv_bfloat16 *bf16 = (__nv_bfloat16 *)dst;

    if (src_dtype == DTYPE_F32)
        return launch(stream, convert_kernel<__nv_bfloat16, float>, grid, 256, 0, bf16,
                      (const float *)src, n);
    if (src_dtype == DTYPE_BF16)
        return launch(stream, convert_kernel<float, __nv_bfloat16>, grid, 256, 0, f32,
                      (const __nv_bfloat16 *)src, n);
    if (dst_dtype == DTYPE_F32)
        return launch(stream, convert_kernel<float, __half>, grid, 256, 0, f32, (const __half *)src,
                      n);
    return launch(stream, convert_kernel<__nv_bfloat16, __half>, grid, 256, 0, bf16,
                  (const __half *)src, n);
}

static cudaError_t ring_prepare(struct device *device, int slot, bool with_dev)
{
    cudaError_t error = cudaSuccess;

    if (device->ring[slot].idle == NULL)
        error = cudaEventCreateWithFlags(&device->ring[slot].idle, cudaEventDisableTiming);
    if (!error && device->ring[slot].host == NULL)
        error = cudaHostAlloc(&device->ring[slot].host, RING_SLOT_SIZE, cudaHostAllocDefault);
    if (!error && with_dev && device->ring[slot].dev == NULL)
        error = cudaMalloc(&device->ring[slot].dev, RING_SLOT_SIZE);
    if (!error)
        error = cudaEventSynchronize(device->ring[slot].idle);
    return error;
}

enum { COPIERS = 4 };

struct copy_part {
    char *dst;
    const char *src;
    size_t size;
};

static void *copy_part_run(void *arg)
{
    const struct copy_part *part = (const struct copy_part *)arg;

    memcpy(part->dst, part->src, part->size);
    return NULL;
}

/* memcpy by several threads; by this one where others cannot be had. */
static void copy_together(void *dst, const void *src, size_t size)
{
    struct copy_part parts[COPIERS];
    pthread_t threads[COPIERS];
    bool started[COPIERS] = {};
    size_t step = (size / COPIERS + 4095) / 4096 * 4096;

    for (int i = 0; i < COPIERS; i++) {
        size_t begin = step * (size_t)i < size ? step * (size_t)i : size;
        size_t end = i + 1 < COPIERS && begin + step < size ? begin + step : size;

        parts[i] = {(char *)dst + begin, (const char *)src + begin, end - begin};
        if (i > 0 && parts[i].size)
            started[i] = pthread_create(&threads[i], NULL, copy_part_run, &parts[i]) == 0;
    }
    for (int i = 0; i < COPIERS; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            copy_part_run(&parts[i]);
    }
}

/* n elements from the host to dst, converted where the dtypes differ. */
static cudaError_t upload(struct stream *stream, void *dst, enum dtype dst_dtype, const void *src,
                          enum dtype src_dtype, size_t n)
{
    struct device *device = stream->device;
    size_t src_size = dtype_size(src_dtype), dst_size = dtype_size(dst_dtype);
    size_t step = RING_SLOT_SIZE / src_size;
    bool same = dst_dtype == src_dtype;
    cudaError_t error = cudaSuccess;

    for (size_t at = 0, slot = 0; at < n && !error; at += step, slot = (slot + 1) % RING_SLOTS) {
        size_t count = n - at < step ? n - at : step;
        char *out = (char *)dst + at * dst_size;

        error = ring_prepare(device, (int)slot, !same);
        if (error)
            break;
        copy_together(device->ring[slot].host, (const char *)src + at * src_size, count * src_size);
        error = cudaMemcpyAsync(same ? out : device->ring[slot].dev, device->ring[slot].host,
                                count * src_size, cudaMemcpyHostToDevice, stream->cuda);
        if (!error && !same)
            error = convert(stream, out, dst_dtype, device->ring[slot].dev, src_dtype, count);
        if (!error)
            error = cudaEventRecord(device->ring[slot].idle, stream->cuda);
    }
    return error;
}

static struct status check_part(const struct linear_part *part, enum dtype dtype)
{
    if (part->dtype != DTYPE_F32 && part->dtype != DTYPE_BF16 && part->dtype != DTYPE_F16)
        return status_error(STATUS_INVALID, "weight: unknown dtype %d", (int)part->dtype);
    if (dtype != DTYPE_F32 && dtype != DTYPE_BF16)
        return status_error(STATUS_UNSUPPORTED, "weight: cuda computes in float32 and bfloat16");
    return status_ok();
}

extern "C" void linear_cuda_destroy(struct linear_weight **weight)
{
    if (*weight == NULL)
        return;
    cudaSetDevice((*weight)->device->ordinal);
    cudaFree((*weight)->data);
    cudaFree((*weight)->bias);
    free(*weight);
    *weight = NULL;
}

extern "C" struct status linear_cuda_create(struct stream *stream,
                                            const struct linear_source *source,
                                            struct linear_weight **out)
{
    struct linear_weight *weight = (struct linear_weight *)calloc(1, sizeof(*weight));
    struct status status = status_ok();
    cudaError_t error;
    size_t size = dtype_size(source->dtype), row = 0;
    bool has_bias = false;

    if (weight == NULL)
        return status_error(STATUS_NO_MEMORY, "weight: out of memory");
    *weight = {.device = stream->device, .dtype = source->dtype, .k = source->k};
    for (int32_t i = 0; i < source->num_parts && !status.code; i++) {
        weight->n += source->parts[i].n;
        has_bias |= source->parts[i].bias != NULL;
        status = check_part(&source->parts[i], source->dtype);
    }
    if (status.code)
        goto out;
    error = cudaSetDevice(stream->device->ordinal);
    if (!error)
        error = cudaMalloc(&weight->data, (size_t)weight->n * (size_t)weight->k * size);
    if (!error && has_bias)
        error = cudaMalloc(&weight->bias, (size_t)weight->n * size);
    if (!error && has_bias)
        error = cudaMemsetAsync(weight->bias, 0, (size_t)weight->n * size, stream->cuda);
    for (int32_t i = 0; i < source->num_parts && !error; i++) {
        const struct linear_part *part = &source->parts[i];

        error = upload(stream, (char *)weight->data + row * (size_t)weight->k * size, weight->dtype,
                       part->data, part->dtype, (size_t)part->n * (size_t)weight->k);
        if (!error && part->bias)
            error = upload(stream, (char *)weight->bias + row * size, weight->dtype, part->bias,
                           part->dtype, (size_t)part->n);
        row += (size_t)part->n;
    }
    status = cuda_status(error, "loading a weight");
    if (status.code)
        goto out;
    *out = weight;
    weight = NULL;
out:
    linear_cuda_destroy(&weight);
    return status;
}

extern "C" void experts_cuda_destroy(struct experts_weight **weight)
{
    if (*weight == NULL)
        return;
    cudaSetDevice((*weight)->device->ordinal);
    cudaFree((*weight)->gate_up);
    cudaFree((*weight)->down);
    free(*weight);
    *weight = NULL;
}

extern "C" struct status experts_cuda_create(struct stream *stream,
                                             const struct experts_source *source,
                                             struct experts_weight **out)
{
    struct experts_weight *weight = (struct experts_weight *)calloc(1, sizeof(*weight));
    struct status status = status_ok();
    cudaError_t error;
    size_t size = dtype_size(source->dtype);
    size_t matrix = (size_t)source->hidden_size * (size_t)source->inner_size;

    if (weight == NULL)
        return status_error(STATUS_NO_MEMORY, "experts: out of memory");
    *weight = {.device = stream->device,
               .dtype = source->dtype,
               .num_experts = source->num_experts,
               .hidden_size = source->hidden_size,
               .inner_size = source->inner_size};
    error = cudaSetDevice(stream->device->ordinal);
    if (!error)
        error = cudaMalloc(&weight->gate_up, (size_t)source->num_experts * 2 * matrix * size);
    if (!error)
        error = cudaMalloc(&weight->down, (size_t)source->num_experts * matrix * size);
    for (int32_t e = 0; e < source->num_experts && !error && !status.code; e++) {
        const struct linear_part *parts[] = {&source->gate[e], &source->up[e], &source->down[e]};
        char *places[] = {(char *)weight->gate_up + 2 * (size_t)e * matrix * size,
                          (char *)weight->gate_up + (2 * (size_t)e + 1) * matrix * size,
                          (char *)weight->down + (size_t)e * matrix * size};

        for (int i = 0; i < 3 && !error && !status.code; i++) {
            status = check_part(parts[i], source->dtype);
            if (!status.code)
                error = upload(stream, places[i], source->dtype, parts[i]->data, parts[i]->dtype,
                               matrix);
        }
    }
    if (!status.code)
        status = cuda_status(error, "loading experts");
    if (status.code)
        goto out;
    *out = weight;
    weight = NULL;
out:
    experts_cuda_destroy(&weight);
    return status;
}
