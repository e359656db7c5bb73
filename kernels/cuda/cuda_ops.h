/*
 * cuda_ops.h - the functions behind the CUDA back end's two tables, one file each; what they do is
 * said in device.h and ops.h. Plain C, so that module.c can fill the tables.
 */
#ifndef KERNELS_CUDA_CUDA_OPS_H
#define KERNELS_CUDA_CUDA_OPS_H

#include "kernels/ops.h"

extern const struct device_ops device_cuda;
extern const struct kernels kernels_cuda;

/* device.cu */
struct status device_cuda_open(const struct device_args *args, struct device **out);
void device_cuda_close(struct device **device);
struct status device_cuda_info(struct device *device, struct device_info *out);
struct status device_cuda_alloc(struct device *device, size_t size, void **out);
void device_cuda_free(struct device *device, void *data);
struct status device_cuda_host_alloc(struct device *device, size_t size, void **out);
void device_cuda_host_free(struct device *device, void *data);

/* stream.cu */
struct status stream_cuda_create(struct device *device, bool high_priority, struct stream **out);
void stream_cuda_destroy(struct stream **stream);
struct status stream_cuda_sync(struct stream *stream);
struct status stream_cuda_copy(struct stream *stream, void *dst, const void *src, size_t size,
                               enum copy_kind kind);
struct status stream_cuda_fill(struct stream *stream, void *dst, uint8_t byte, size_t size);
struct status stream_cuda_wait(struct stream *stream, struct event *event);
struct status event_cuda_create(struct device *device, struct event **out);
void event_cuda_destroy(struct event **event);
struct status event_cuda_record(struct stream *stream, struct event *event);
struct status event_cuda_wait(struct event *event);
struct status event_cuda_time(struct event *event, int64_t *out_ns);
struct status graph_cuda_begin(struct stream *stream);
struct status graph_cuda_end(struct stream *stream, struct graph **out);
bool graph_cuda_is_provisional(const struct graph *graph);
struct status graph_cuda_launch(struct stream *stream, struct graph *graph);
void graph_cuda_destroy(struct graph **graph);
uint64_t range_cuda_begin(const char *name);
void range_cuda_end(uint64_t range);

/* weights.cu: host matrices on their way to the device. */
struct status linear_cuda_create(struct stream *stream, const struct linear_source *source,
                                 struct linear_weight **out);
void linear_cuda_destroy(struct linear_weight **weight);
struct status experts_cuda_create(struct stream *stream, const struct experts_source *source,
                                  struct experts_weight **out);
void experts_cuda_destroy(struct experts_weight **weight);

/* One file each. */
struct status step_begin_cuda(struct stream *stream, const struct step_begin_args *args);
struct status embed_cuda(struct stream *stream, const struct embed_args *args);
struct status rmsnorm_cuda(struct stream *stream, const struct rmsnorm_args *args);
struct status linear_cuda(struct stream *stream, const struct linear_args *args);
struct status rope_kv_cuda(struct stream *stream, const struct rope_kv_args *args);
struct status attention_cuda(struct stream *stream, const struct attention_args *args);
struct status gate_up_cuda(struct stream *stream, const struct gate_up_args *args);
struct status moe_cuda(struct stream *stream, const struct moe_args *args);
struct status sample_cuda(struct stream *stream, const struct sample_args *args);
struct status fault_cuda(struct stream *stream);

/* STATUS_UNSUPPORTED names what is beyond an operator. */
struct status attention_cuda_check(const struct ops_limits *limits);
struct status moe_cuda_check(int32_t num_experts);

/* Bytes of workspace that each needs at most. */
size_t attention_cuda_workspace(struct device *device, const struct ops_limits *limits);
size_t moe_cuda_workspace(const struct ops_limits *limits);
size_t sample_cuda_workspace(const struct ops_limits *limits);

#endif
