/* wire_writer.c - see wire_writer.h. */
#include "proto/wire_writer.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

void frame_buffer_deinit(struct frame_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct frame_buffer){0};
}

static bool reserve(struct frame_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;

    if (more <= buffer->capacity - buffer->size)
        return true;
    if (more > SIZE_MAX / 2 - buffer->size)
        return false;
    while (capacity - buffer->size < more)
        capacity *= 2;
    uint8_t *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

static int append(void *data, const char *bytes, size_t size)
{
    struct wire_writer *writer = data;
    struct frame_buffer *out = writer->out;

    if (writer->failed || !reserve(out, size)) {
        writer->failed = true;
        return -1;
    }
    if (size) /* no bytes may come with a null pointer */
        memcpy(out->data + out->size, bytes, size);
    out->size += size;
    return 0;
}

void wire_writer_init(struct wire_writer *writer, struct frame_buffer *out)
{
    out->size = 0;
    *writer = (struct wire_writer){.out = out};
    msgpack_packer_init(&writer->packer, writer, append);
}

void wire_put_map(struct wire_writer *writer, size_t num_pairs)
{
    msgpack_pack_map(&writer->packer, num_pairs);
}

void wire_put_array(struct wire_writer *writer, size_t num_items)
{
    msgpack_pack_array(&writer->packer, num_items);
}

void wire_put_key(struct wire_writer *writer, const char *key)
{
    msgpack_pack_str_with_body(&writer->packer, key, strlen(key));
}

void wire_put_str(struct wire_writer *writer, struct bytes text)
{
    msgpack_pack_str_with_body(&writer->packer, text.data, text.size);
}

void wire_put_bin(struct wire_writer *writer, struct bytes bytes)
{
    msgpack_pack_bin_with_body(&writer->packer, bytes.data, bytes.size);
}

void wire_put_int(struct wire_writer *writer, int64_t value)
{
    msgpack_pack_int64(&writer->packer, value);
}

void wire_put_uint(struct wire_writer *writer, uint64_t value)
{
    msgpack_pack_uint64(&writer->packer, value);
}

void wire_put_float(struct wire_writer *writer, float value)
{
    msgpack_pack_float(&writer->packer, value);
}

void wire_put_bool(struct wire_writer *writer, bool value)
{
    if (value)
        msgpack_pack_true(&writer->packer);
    else
        msgpack_pack_false(&writer->packer);
}

void wire_put_nil(struct wire_writer *writer)
{
    msgpack_pack_nil(&writer->packer);
}

void wire_put_ids(struct wire_writer *writer, const int32_t *ids, size_t num_ids)
{
    wire_put_array(writer, num_ids);
    for (size_t i = 0; i < num_ids; i++)
        msgpack_pack_int32(&writer->packer, ids[i]);
}

void wire_put_packed_ids(struct wire_writer *writer, const int32_t *ids, size_t num_ids)
{
    uint32_t chunk[256];

    msgpack_pack_bin(&writer->packer, num_ids * sizeof(*ids));
    for (size_t first = 0; first < num_ids; first += 256) {
        size_t count = num_ids - first < 256 ? num_ids - first : 256;

        for (size_t i = 0; i < count; i++)
            chunk[i] = htole32((uint32_t)ids[first + i]);
        append(writer, (const char *)chunk, count * sizeof(chunk[0]));
    }
}
