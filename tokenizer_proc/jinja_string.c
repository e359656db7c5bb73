/*
 * jinja_string.c - see jinja_string.h.
 *
 *   data    < | i m _ s t a r t | > u s e r \n h e l l o
 *   ranges                          [      )   [        )     sorted, apart, none empty
 */
#include "tokenizer_proc/jinja_string.h"

#include <stdint.h>

#include "common/utf8.h"

/* ---- UTF-8 ---- */

uint32_t jinja_next_char(const char *data, size_t size, size_t *offset)
{
    const unsigned char *p = (const unsigned char *)data + *offset;
    size_t left = size - *offset;

    if (p[0] < 0x80) {
        *offset += 1;
        return p[0];
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF && left >= 2) {
        *offset += 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] >= 0xE0 && p[0] <= 0xEF && left >= 3) {
        *offset += 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    if (p[0] >= 0xF0 && p[0] <= 0xF4 && left >= 4) {
        *offset += 4;
        return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 |
               (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    }
    *offset += 1;
    return 0xFFFD;
}

uint32_t jinja_previous_char(const char *data, size_t *offset)
{
    size_t end = *offset, start = end - 1;

    while (start > 0 && end - start < 4 && ((unsigned char)data[start] & 0xC0) == 0x80)
        start--;
    *offset = start;
    return jinja_next_char(data, end, &start);
}

size_t jinja_count_chars(const char *data, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)data[i] & 0xC0) != 0x80;
    return count;
}

size_t jinja_char_offset(const char *data, size_t size, size_t index)
{
    size_t offset = 0;

    for (; offset < size; offset++) {
        if (((unsigned char)data[offset] & 0xC0) != 0x80 && index-- == 0)
            break;
    }
    return offset;
}

size_t jinja_put_char(char *out, uint32_t c)
{
    return utf8_encode(out, c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF) ? 0xFFFD : c);
}

/* ---- ranges ---- */

/* The first range that ends behind offset. */
static size_t first_range(const struct jinja_string *string, size_t offset)
{
    size_t low = 0, high = string->num_ranges;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (string->ranges[middle].end <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool jinja_is_caller_at(const struct jinja_string *string, size_t offset)
{
    if (string->origin != JINJA_MIXED)
        return string->origin == JINJA_FROM_CALLER;
    size_t i = first_range(string, offset);
    return i < string->num_ranges && string->ranges[i].start <= offset;
}

static bool add_range(struct jinja_buffer *buffer, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (buffer->num_ranges && buffer->ranges[buffer->num_ranges - 1].end == start) {
        buffer->ranges[buffer->num_ranges - 1].end = end;
        return true;
    }
    if (buffer->num_ranges == buffer->ranges_capacity) {
        size_t capacity = buffer->ranges_capacity ? buffer->ranges_capacity * 2 : 4;
        struct text_range *ranges = jinja_alloc(buffer->run, capacity, sizeof(*ranges));
        if (!ranges)
            return false;
        if (buffer->num_ranges)
            memcpy(ranges, buffer->ranges, buffer->num_ranges * sizeof(*ranges));
        buffer->ranges = ranges;
        buffer->ranges_capacity = capacity;
    }
    buffer->ranges[buffer->num_ranges++] = (struct text_range){start, end};
    return true;
}

/* ---- buffer ---- */

static bool reserve(struct jinja_buffer *buffer, size_t size)
{
    if (size <= buffer->capacity - buffer->size)
        return true;
    if (size > SIZE_MAX / 4 - buffer->size)
        return jinja_fail_space(buffer->run, "a text is too long");
    size_t capacity = (buffer->size + size) * (buffer->capacity ? 2 : 1);
    if (capacity < 48)
        capacity = 48;
    char *data = jinja_alloc(buffer->run, capacity, 1);
    if (!data)
        return false;
    if (buffer->size)
        memcpy(data, buffer->data, buffer->size);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool jinja_buffer_add(struct jinja_buffer *buffer, const char *data, size_t size, bool from_caller)
{
    if (size == 0)
        return true;
    if (!reserve(buffer, size))
        return false;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return !from_caller || add_range(buffer, buffer->size - size, buffer->size);
}

bool jinja_buffer_add_text(struct jinja_buffer *buffer, const char *text)
{
    return jinja_buffer_add(buffer, text, strlen(text), false);
}

bool jinja_buffer_add_char(struct jinja_buffer *buffer, uint32_t character, bool from_caller)
{
    char data[4];

    return jinja_buffer_add(buffer, data, jinja_put_char(data, character), from_caller);
}

bool jinja_buffer_add_string(struct jinja_buffer *buffer, const struct jinja_string *string)
{
    return jinja_buffer_add_slice(buffer, string, 0, string->size);
}

bool jinja_buffer_add_slice(struct jinja_buffer *buffer, const struct jinja_string *string,
                            size_t start, size_t end)
{
    size_t base = buffer->size;

    if (!jinja_buffer_add(buffer, string->data + start, end - start,
                          string->origin == JINJA_FROM_CALLER))
        return false;
    if (string->origin != JINJA_MIXED)
        return true;
    for (size_t i = first_range(string, start);
         i < string->num_ranges && string->ranges[i].start < end; i++) {
        size_t from = string->ranges[i].start < start ? start : string->ranges[i].start;
        size_t to = string->ranges[i].end > end ? end : string->ranges[i].end;
        if (!add_range(buffer, base + from - start, base + to - start))
            return false;
    }
    return true;
}

bool jinja_buffer_add_repeated(struct jinja_buffer *buffer, const struct jinja_string *string,
                               int64_t count)
{
    if (count > 0 && string->size > SIZE_MAX / 4 / (size_t)count)
        return jinja_fail_space(buffer->run, "a text is too long");
    if (count > 0 && !reserve(buffer, string->size * (size_t)count))
        return false;
    if (string->size == 0)
        return true;
    for (int64_t i = 0; i < count; i++) {
        if (!jinja_buffer_add_string(buffer, string))
            return false;
    }
    return true;
}

bool jinja_buffer_finish(struct jinja_buffer *buffer, struct jinja_value *out)
{
    enum jinja_origin origin = JINJA_MIXED;

    if (buffer->num_ranges == 0)
        origin = JINJA_FROM_TEMPLATE;
    else if (buffer->num_ranges == 1 && buffer->ranges[0].start == 0 &&
             buffer->ranges[0].end == buffer->size)
        origin = JINJA_FROM_CALLER;
    struct jinja_string *string = jinja_alloc(buffer->run, 1, sizeof(*string));
    if (!string)
        return false;
    *string = (struct jinja_string){
        .data = buffer->data ? buffer->data : "", .size = buffer->size, .origin = origin};
    if (origin == JINJA_MIXED) {
        string->ranges = buffer->ranges;
        string->num_ranges = buffer->num_ranges;
    }
    *out = (struct jinja_value){.type = JINJA_STRING, .string = string};
    return true;
}

/* ---- values ---- */

bool jinja_make_string(struct jinja_run *run, const char *data, size_t size,
                       enum jinja_origin origin, struct jinja_value *out)
{
    struct jinja_string *string = jinja_alloc(run, 1, sizeof(*string));

    if (!string)
        return false;
    *string = (struct jinja_string){.data = data, .size = size, .origin = origin};
    *out = (struct jinja_value){.type = JINJA_STRING, .string = string};
    return true;
}

bool jinja_make_text(struct jinja_run *run, const char *text, struct jinja_value *out)
{
    return jinja_make_string(run, text, strlen(text), JINJA_FROM_TEMPLATE, out);
}

/* The ranges of a slice of a mixed string. */
static bool slice_ranges(struct jinja_run *run, const struct jinja_string *string, size_t start,
                         size_t end, struct jinja_string *slice)
{
    size_t first = first_range(string, start), last = first;

    while (last < string->num_ranges && string->ranges[last].start < end)
        last++;
    if (first == last) {
        slice->origin = JINJA_FROM_TEMPLATE;
        return true;
    }
    if (string->ranges[first].start <= start && string->ranges[first].end >= end) {
        slice->origin = JINJA_FROM_CALLER;
        return true;
    }
    struct text_range *ranges = jinja_alloc(run, last - first, sizeof(*ranges));
    if (!ranges)
        return false;
    for (size_t i = first; i < last; i++) {
        struct text_range range = string->ranges[i];
        ranges[i - first].start = range.start < start ? 0 : range.start - start;
        ranges[i - first].end = (range.end > end ? end : range.end) - start;
    }
    slice->origin = JINJA_MIXED;
    slice->ranges = ranges;
    slice->num_ranges = last - first;
    return true;
}

bool jinja_make_slice(struct jinja_run *run, const struct jinja_string *string, size_t start,
                      size_t end, struct jinja_value *out)
{
    if (start >= end)
        start = end = 0;
    if (start == 0 && end == string->size) {
        *out = (struct jinja_value){.type = JINJA_STRING, .string = string};
        return true;
    }
    struct jinja_string *slice = jinja_alloc(run, 1, sizeof(*slice));
    if (!slice)
        return false;
    *slice = (struct jinja_string){.data = string->data + start,
                                   .size = end - start,
                                   .origin = string->origin,
                                   .is_markup = string->is_markup};
    if (slice->size == 0)
        slice->origin = JINJA_FROM_TEMPLATE;
    else if (string->origin == JINJA_MIXED && !slice_ranges(run, string, start, end, slice))
        return false;
    *out = (struct jinja_value){.type = JINJA_STRING, .string = slice};
    return true;
}

size_t jinja_find(const struct jinja_string *string, const struct jinja_string *needle, size_t from)
{
    if (from > string->size)
        return SIZE_MAX;
    if (needle->size == 0)
        return from;
    const char *found =
        memmem(string->data + from, string->size - from, needle->data, needle->size);
    return found ? (size_t)(found - string->data) : SIZE_MAX;
}
