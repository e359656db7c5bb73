/*
 * jinja_format.h - one value in the style that a format asks for: what `format % arguments`
 * (jinja_format_percent.c) and str.format() (jinja_format_brace.c) share.
 *
 * Text of the format keeps its origin; so does text that is put in; padding is the template's, or
 * of the fill that the format names.
 */
#ifndef TOKENIZER_PROC_JINJA_FORMAT_H
#define TOKENIZER_PROC_JINJA_FORMAT_H

#include "tokenizer_proc/jinja_string.h"

enum { FORMAT_MAX_WIDTH = 1000000, FORMAT_MAX_PRECISION = 300 };

/* How one value is to look. */
struct jinja_style {
    const struct jinja_string *fill; /* one character */
    char align;                      /* < > ^ = */
    char sign;                       /* + - or blank; '-' shows the minus alone */
    bool alternate, grouping;        /* # and , */
    int64_t width, precision;        /* precision -1: not given */
    char type;                       /* of the presentation; '\0': the value's own */
};

extern const struct jinja_string jinja_blank_fill, jinja_zero_fill;

/* value: an integer, or bool. */
bool jinja_format_int(struct jinja_buffer *buffer, const struct jinja_style *style,
                      struct jinja_value value);
bool jinja_format_float(struct jinja_buffer *buffer, const struct jinja_style *style,
                        double number);
/* str() of any value, cut to the precision. */
bool jinja_format_text(struct jinja_buffer *buffer, const struct jinja_style *style,
                       struct jinja_value value);
/* A code point as a character, or a string of one. */
bool jinja_format_char(struct jinja_buffer *buffer, const struct jinja_style *style,
                       struct jinja_value value);
/* repr() as a string. */
bool jinja_format_repr(struct jinja_run *run, struct jinja_value value, struct jinja_value *out);

#endif
