/*
 * jinja_format.c - one value in the style that a format asks for. See jinja_format.h.
 *
 * Text of the format keeps its origin; so does text that is put in; padding is the format's.
 */
#include <math.h>

#include "tokenizer_proc/jinja_format.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

enum { NUMBER_SIZE = 700 };

const struct jinja_string jinja_blank_fill = {.data = " ", .size = 1};
const struct jinja_string jinja_zero_fill = {.data = "0", .size = 1};

/* prefix is the sign and such, which '=' puts before the fill. */
static bool add_padded(struct jinja_buffer *buffer, const struct jinja_style *style,
                       const char *prefix, const struct jinja_string *text)
{
    int64_t length = (int64_t)(strlen(prefix) + jinja_count_chars(text->data, text->size));
    int64_t missing = style->width > length ? style->width - length : 0;
    int64_t left = style->align == '>' ? missing : style->align == '^' ? missing / 2 : 0;
    int64_t inner = style->align == '=' ? missing : 0;

    return jinja_buffer_add_repeated(buffer, style->fill, left) &&
           jinja_buffer_add_text(buffer, prefix) &&
           jinja_buffer_add_repeated(buffer, style->fill, inner) &&
           jinja_buffer_add_string(buffer, text) &&
           jinja_buffer_add_repeated(buffer, style->fill, missing - left - inner);
}

static const char *sign_text(const struct jinja_style *style, bool negative)
{
    if (negative)
        return "-";
    return style->sign == '+' ? "+" : style->sign == ' ' ? " " : "";
}

/* Commas between groups of three, in the digits before a point. */
static void add_commas(char *text, size_t capacity)
{
    size_t digits = strspn(text, "0123456789"), size = strlen(text);

    for (size_t i = digits; i > 3; i -= 3) {
        if (size + 2 > capacity)
            return;
        memmove(text + i - 2, text + i - 3, size - (i - 3) + 1);
        text[i - 3] = ',';
        size++;
    }
}

static bool add_number(struct jinja_buffer *buffer, const struct jinja_style *style, bool negative,
                       const char *base_prefix, const char *text)
{
    char prefix[8];
    struct jinja_string digits = {.data = text, .size = strlen(text)};

    snprintf(prefix, sizeof(prefix), "%s%s", sign_text(style, negative),
             style->alternate ? base_prefix : "");
    return add_padded(buffer, style, prefix, &digits);
}

static bool format_based(struct jinja_buffer *buffer, const struct jinja_style *style,
                         struct jinja_value value)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    char text[72];
    size_t at = sizeof(text) - 1;
    unsigned base = style->type == 'b' ? 2 : style->type == 'o' ? 8 : 16;
    const char *prefix = style->type == 'b'   ? "0b"
                         : style->type == 'o' ? "0o"
                         : style->type == 'X' ? "0X"
                                              : "0x";

    if (value.type == JINJA_BIGINT)
        return jinja_fail(buffer->run, "an integer is too large for this format");
    int64_t integer = jinja_clamp_int(value);
    uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    text[at] = '\0';
    do {
        text[--at] = (style->type == 'X' ? upper : lower)[rest % base];
        rest /= base;
    } while (rest);
    return add_number(buffer, style, integer < 0, prefix, text + at);
}

bool jinja_format_int(struct jinja_buffer *buffer, const struct jinja_style *style,
                      struct jinja_value value)
{
    size_t capacity = JINJA_BIGINT_TEXT_SIZE * 2;
    char *text = jinja_alloc(buffer->run, capacity, 1);

    if (!text)
        return false;
    if (value.type == JINJA_BOOL)
        value = jinja_int(value.boolean);
    if (strchr("boxX", style->type) && style->type)
        return format_based(buffer, style, value);
    jinja_print_int(value, text);
    bool negative = text[0] == '-';
    if (style->grouping)
        add_commas(text + negative, capacity - 1);
    return add_number(buffer, style, negative, "", text + negative);
}

bool jinja_format_float(struct jinja_buffer *buffer, const struct jinja_style *style, double number)
{
    char text[NUMBER_SIZE * 2];
    int precision = style->precision < 0 ? 6 : (int)style->precision;
    bool negative = signbit(number) && !isnan(number);

    number = fabs(number);
    switch (style->type) {
    case 'e':
        snprintf(text, sizeof(text), "%.*e", precision, number);
        break;
    case 'E':
        snprintf(text, sizeof(text), "%.*E", precision, number);
        break;
    case 'f':
    case 'F':
        snprintf(text, sizeof(text), "%.*f", precision, number);
        break;
    case '%':
        snprintf(text, sizeof(text), "%.*f%%", precision, number * 100.0);
        break;
    case 'G':
        snprintf(text, sizeof(text), "%.*G", precision ? precision : 1, number);
        break;
    case 'g':
    case 'n':
        snprintf(text, sizeof(text), "%.*g", precision ? precision : 1, number);
        break;
    default:
        if (style->precision < 0)
            jinja_print_float(number, text);
        else
            snprintf(text, sizeof(text), "%.*g", precision ? precision : 1, number);
        if (isfinite(number) && !strpbrk(text, ".e"))
            strcat(text, ".0");
        break;
    }
    if (style->grouping)
        add_commas(text, sizeof(text) - 1);
    return add_number(buffer, style, negative, "", text);
}

bool jinja_format_text(struct jinja_buffer *buffer, const struct jinja_style *style,
                       struct jinja_value value)
{
    struct jinja_value text = {0};

    if (!jinja_to_string(buffer->run, value, &text))
        return false;
    if (style->precision >= 0) {
        size_t end =
            jinja_char_offset(text.string->data, text.string->size, (size_t)style->precision);
        if (!jinja_make_slice(buffer->run, text.string, 0, end, &text))
            return false;
    }
    return add_padded(buffer, style, "", text.string);
}

bool jinja_format_repr(struct jinja_run *run, struct jinja_value value, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);

    return jinja_print_repr(&buffer, value) && jinja_buffer_finish(&buffer, out);
}

bool jinja_format_char(struct jinja_buffer *buffer, const struct jinja_style *style,
                       struct jinja_value value)
{
    char data[4];
    struct jinja_string text = {.data = data};
    int64_t code = jinja_is_integer(value) ? jinja_clamp_int(value) : -1;

    if (value.type == JINJA_STRING &&
        jinja_count_chars(value.string->data, value.string->size) == 1)
        return jinja_format_text(buffer, style, value);
    if (code < 0 || code > 0x10FFFF)
        return jinja_fail(buffer->run, "%%c requires int or char");
    text.size = jinja_put_char(data, (uint32_t)code);
    return add_padded(buffer, style, "", &text);
}
