/*
 * fuzz_safetensors.c - any bytes as a weight file. Checked: what is accepted lies within the file,
 * and each tensor has the bytes that its shape takes.
 */
#include <stdlib.h>

#include "scheduler_proc/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;

    if (safetensors_parse(&file, data, size).code)
        return 0;
    for (size_t i = 0; i < file.num_tensors; i++) {
        const struct tensor *tensor = &file.tensors[i];
        const uint8_t *begin = tensor->data;
        uint64_t count = 1;
        for (int32_t d = 0; d < tensor->num_dims; d++)
            count *= (uint64_t)tensor->shape[d];
        if (begin < data || begin + tensor->size > data + size ||
            (tensor->is_float && count * dtype_size(tensor->dtype) != tensor->size) ||
            safetensors_find(&file, tensor->name) != tensor)
            abort();
    }
    safetensors_close(&file);
    return 0;
}
