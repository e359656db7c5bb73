/*
 * jinja_string.h - strings that know which of their bytes came from the caller.
 *
 * A buffer builds a string piece by piece and keeps the list of the caller's bytes; a slice shares
 * its bytes with the string it is of. Offsets are bytes; characters are code points.
 */
#ifndef TOKENIZER_PROC_JINJA_STRING_H
#define TOKENIZER_PROC_JINJA_STRING_H

#include <string.h>

#include "tokenizer_proc/jinja_value.h"

struct jinja_buffer {
    struct jinja_run *run;
    char *data;
    size_t size, capacity;
    struct text_range *ranges; /* the caller's bytes so far */
    size_t num_ranges, ranges_capacity;
};

static inline struct jinja_buffer jinja_buffer_make(struct jinja_run *run)
{
    return (struct jinja_buffer){.run = run};
}

bool jinja_buffer_add(struct jinja_buffer *buffer, const char *data, size_t size, bool from_caller);
bool jinja_buffer_add_text(struct jinja_buffer *buffer, const char *text); /* the template's */
bool jinja_buffer_add_char(struct jinja_buffer *buffer, uint32_t character, bool from_caller);
bool jinja_buffer_add_string(struct jinja_buffer *buffer, const struct jinja_string *string);
bool jinja_buffer_add_slice(struct jinja_buffer *buffer, const struct jinja_string *string,
                            size_t start, size_t end);
bool jinja_buffer_add_repeated(struct jinja_buffer *buffer, const struct jinja_string *string,
                               int64_t count);

/* The string; the buffer is not to be used any more. */
bool jinja_buffer_finish(struct jinja_buffer *buffer, struct jinja_value *out);

/* Whether any byte of the string, or the byte at offset, is the caller's. */
static inline bool jinja_has_caller(const struct jinja_string *string)
{
    return string->origin != JINJA_FROM_TEMPLATE;
}
bool jinja_is_caller_at(const struct jinja_string *string, size_t offset);

/* A string value over bytes that live as long as the run. */
bool jinja_make_string(struct jinja_run *run, const char *data, size_t size,
                       enum jinja_origin origin, struct jinja_value *out);
/* The template's, from a C string. */
bool jinja_make_text(struct jinja_run *run, const char *text, struct jinja_value *out);
bool jinja_make_slice(struct jinja_run *run, const struct jinja_string *string, size_t start,
                      size_t end, struct jinja_value *out);

static inline bool jinja_string_is(const struct jinja_string *string, const char *text)
{
    size_t size = strlen(text);

    return string->size == size && memcmp(string->data, text, size) == 0;
}

static inline bool jinja_string_equal(const struct jinja_string *a, const struct jinja_string *b)
{
    return a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
}

/* The first place of needle in data[from..size), or SIZE_MAX. */
size_t jinja_find(const struct jinja_string *string, const struct jinja_string *needle,
                  size_t from);

/* The character at *offset, which moves behind it. Bytes that are no UTF-8 count as U+FFFD each. */
uint32_t jinja_next_char(const char *data, size_t size, size_t *offset);
/* Moves *offset (> 0) to the start of the character before it. */
uint32_t jinja_previous_char(const char *data, size_t *offset);
size_t jinja_count_chars(const char *data, size_t size);
/* The offset of character number index, size if there are fewer. */
size_t jinja_char_offset(const char *data, size_t size, size_t index);
/* At most 4 bytes; surrogates become U+FFFD. */
size_t jinja_put_char(char *out, uint32_t character);

#endif
