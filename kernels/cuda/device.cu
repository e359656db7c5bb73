/*
 * device.cu - one card: opening, memory, and the base of its clock.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear.cuh"

/* A missing driver or card is not a fault of the device but something to install or to choose. */
static struct status no_device(cudaError_t error)
{
    if (error == cudaErrorInsufficientDriver)
        return status_error(STATUS_UNSUPPORTED,
                            "no NVIDIA driver that is new enough for CUDA 13 was found");
    if (error == cudaErrorNoDevice)
        return status_error(STATUS_UNSUPPORTED, "the NVIDIA driver sees no card");
    return cuda_status(error, "looking for CUDA devices");
}

enum { MARK = 128 }; /* bytes of shared memory that only sm_90a's probe has */

static __global__ void probe(char *out)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ char mark[MARK];

    mark[threadIdx.x] = 1;
    *out = mark[threadIdx.x ^ 1];
#else
    *out = 0;
#endif
}

/*
 * For which architecture the code that this card runs was compiled: what the kernels hold between
 * #if __CUDA_ARCH__, and so what may be asked of them. Code for an older one serves newer cards.
 */
static struct status find_code(int ordinal, int major, int minor, struct device *device)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, probe);

    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
        error == cudaErrorUnsupportedPtxVersion)
        return status_error(STATUS_UNSUPPORTED,
                            "CUDA device %d has compute capability %d.%d, for which this module "
                            "was not built: see -Dgpu_archs",
                            ordinal, major, minor);
    if (error)
        return cuda_status(error, "the code for this card");
    device->architecture = attributes.ptxVersion;
    device->has_wgmma = attributes.sharedSizeBytes >= MARK;
    return status_ok();
}

static struct status check_card(int ordinal, struct device *device)
{
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    cudaError_t error;
    int num_devices = 0, major = 0, minor = 0;
    struct status status;

    error = cudaGetDeviceCount(&num_devices);
    if (error)
        return no_device(error);
    if (ordinal < 0 || ordinal >= num_devices)
        return status_error(STATUS_INVALID, "CUDA device %d is not there: there are %d", ordinal,
                            num_devices);
    error = cudaSetDevice(ordinal);
    if (!error)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    if (!error)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    if (!error)
        error = cudaDeviceGetAttribute(&device->num_sms, cudaDevAttrMultiProcessorCount, ordinal);
    if (!error)
        error = cudaDeviceGetAttribute(&device->max_shared_bytes,
                                       cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
    if (error)
        return cuda_status(error, "CUDA device");
    if (major < 8)
        return status_error(STATUS_UNSUPPORTED,
                            "CUDA device %d has compute capability %d.%d; 8.0 is the least",
                            ordinal, major, minor);
    status = find_code(ordinal, major, minor, device);
    if (status.code)
        return status;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &device->encode_tiled, 12000,
                                         cudaEnableDefault, &found) ||
        found != cudaDriverEntryPointSuccess)
        device->encode_tiled = NULL;
    device->ordinal = ordinal;
    device->has_pdl =
        device->architecture >= 90 && !getenv("MINISGL_CUDA_NO_PDL"); /* racecheck knows no PDL */
    return status_ok();
}

struct status device_clock_sync(struct device *device)
{
    cudaError_t error;
    int64_t before = clock_now_ns();

    error = cudaEventRecord(device->base_event, device->clock_stream);
    if (!error)
        error = cudaEventSynchronize(device->base_event);
    device->base_ns = before + (clock_now_ns() - before) / 2;
    return cuda_status(error, "device clock");
}

extern "C" void device_cuda_close(struct device **device)
{
    struct device *d = *device;

    if (d == NULL)
        return;
    *device = NULL;
    cudaSetDevice(d->ordinal);
    cudaDeviceSynchronize();
    for (int i = 0; i < RING_SLOTS; i++) {
        cudaFreeHost(d->ring[i].host);
        cudaFree(d->ring[i].dev);
        if (d->ring[i].idle)
            cudaEventDestroy(d->ring[i].idle);
    }
    linear_tuner_destroy(&d->tuner);
    cudaFree(d->lt_workspace);
    if (d->lt)
        cublasLtDestroy(d->lt);
    if (d->base_event)
        cudaEventDestroy(d->base_event);
    if (d->clock_stream)
        cudaStreamDestroy(d->clock_stream);
    free(d);
}

extern "C" struct status device_cuda_open(const struct device_args *args, struct device **out)
{
    struct status status;
    cudaError_t error;
    int low = 0, high = 0;
    struct device *device = (struct device *)calloc(1, sizeof(*device));

    if (device == NULL)
        return status_error(STATUS_NO_MEMORY, "device: out of memory");
    status = check_card(args->ordinal, device);
    if (status.code)
        goto out;
    error = cudaDeviceGetStreamPriorityRange(&low, &high);
    if (!error)
        error = cudaStreamCreateWithPriority(&device->clock_stream, cudaStreamNonBlocking, high);
    if (!error)
        error = cudaEventCreate(&device->base_event);
    if (!error)
        error = cudaMalloc(&device->lt_workspace, LT_WORKSPACE_SIZE);
    status = cuda_status(error, "opening the CUDA device");
    if (status.code)
        goto out;
    if (cublasLtCreate(&device->lt) != CUBLAS_STATUS_SUCCESS) {
        status = status_error(STATUS_DEVICE, "cuBLASLt could not be started");
        goto out;
    }
    status = linear_tuner_create(args->ordinal, &device->tuner);
    if (status.code)
        goto out;
    status = device_clock_sync(device); /* the first is slow: it starts the context */
    if (!status.code)
        status = device_clock_sync(device);
    if (status.code)
        goto out;
    *out = device;
    device = NULL;
out:
    device_cuda_close(&device);
    return status;
}

extern "C" struct status device_cuda_info(struct device *device, struct device_info *out)
{
    struct device_info info = {};
    size_t total_bytes = 0;
    cudaDeviceProp properties;
    cudaError_t error;

    error = cudaSetDevice(device->ordinal);
    if (!error)
        error = cudaGetDeviceProperties(&properties, device->ordinal);
    if (!error)
        error = cudaMemGetInfo(&info.free_bytes, &total_bytes);
    if (error)
        return cuda_status(error, "device info");
    for (size_t i = 0; i + 1 < sizeof(info.name) && properties.name[i]; i++)
        info.name[i] = properties.name[i];
    *out = info;
    return status_ok();
}

extern "C" struct status device_cuda_alloc(struct device *device, size_t size, void **out)
{
    cudaError_t error = cudaSetDevice(device->ordinal);
    void *data = NULL;

    if (!error)
        error = cudaMalloc(&data, size ? size : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return status_error(STATUS_NO_MEMORY, "the CUDA device has no %zu MiB left", size >> 20);
    }
    if (error)
        return cuda_status(error, "device memory");
    *out = data;
    return status_ok();
}

extern "C" void device_cuda_free(struct device *device, void *data)
{
    cudaSetDevice(device->ordinal);
    cudaFree(data);
}

extern "C" struct status device_cuda_host_alloc(struct device *device, size_t size, void **out)
{
    cudaError_t error = cudaSetDevice(device->ordinal);
    void *data = NULL;

    if (!error)
        error = cudaHostAlloc(&data, size ? size : 1, cudaHostAllocDefault);
    if (error)
        return cuda_status(error, "pinned host memory");
    *out = data;
    return status_ok();
}

extern "C" void device_cuda_host_free(struct device *device, void *data)
{
    cudaSetDevice(device->ordinal);
    cudaFreeHost(data);
}
