/*
 * jinja_number.c - see jinja_number.h.
 */
#include "tokenizer_proc/jinja_number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_proc/jinja_bigint.h"
#include "tokenizer_proc/jinja_string.h"
#include "tokenizer_proc/jinja_unicode.h"

static int64_t small(struct jinja_value value)
{
    return value.type == JINJA_BOOL ? value.boolean : value.integer;
}

double jinja_to_double(struct jinja_value value)
{
    if (value.type == JINJA_FLOAT)
        return value.number;
    if (value.type == JINJA_BIGINT) {
        struct wide wide;
        wide_from_value(value, &wide);
        return wide_to_double(&wide);
    }
    return (double)small(value);
}

int64_t jinja_clamp_int(struct jinja_value value)
{
    if (value.type == JINJA_BIGINT)
        return value.big->is_negative ? INT64_MIN : INT64_MAX;
    return small(value);
}

/* ---- operators ---- */

static bool wide_op(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                    struct jinja_value *out)
{
    struct wide x, y, result, rest;

    wide_from_value(a, &x);
    wide_from_value(b, &y);
    switch (op) {
    case '-':
        y.is_negative = !y.is_negative && y.num_limbs > 0;
        wide_add(&x, &y, &result);
        return wide_to_value(run, &result, out);
    case '+':
        wide_add(&x, &y, &result);
        return wide_to_value(run, &result, out);
    case '*':
        if (!jinja_step(run, (size_t)x.num_limbs * (size_t)y.num_limbs / 64))
            return false;
        if (!wide_multiply(&x, &y, &result))
            return jinja_fail_space(run, "an integer is too large");
        return wide_to_value(run, &result, out);
    default:
        if (!jinja_step(run, (size_t)x.num_limbs * (size_t)y.num_limbs))
            return false;
        wide_divide(&x, &y, &result, &rest);
        return wide_to_value(run, op == '%' ? &rest : &result, out);
    }
}

static bool int_power(struct jinja_run *run, struct jinja_value base, int64_t exponent,
                      struct jinja_value *out)
{
    struct jinja_value result = jinja_int(1);

    if (base.type != JINJA_BIGINT && (small(base) == 0 || small(base) == 1)) {
        *out = jinja_int(exponent == 0 ? 1 : small(base));
        return true;
    }
    while (exponent > 0) {
        if (exponent & 1 && !jinja_number_op(run, '*', result, base, &result))
            return false;
        exponent >>= 1;
        if (exponent && !jinja_number_op(run, '*', base, base, &base))
            return false;
    }
    *out = result;
    return true;
}

static bool int_op(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                   struct jinja_value *out)
{
    int64_t result = 0;

    if (a.type == JINJA_BIGINT || b.type == JINJA_BIGINT)
        return wide_op(run, op, a, b, out);
    int64_t x = small(a), y = small(b);
    switch (op) {
    case '+':
        if (__builtin_add_overflow(x, y, &result))
            return wide_op(run, op, a, b, out);
        break;
    case '-':
        if (__builtin_sub_overflow(x, y, &result))
            return wide_op(run, op, a, b, out);
        break;
    case '*':
        if (__builtin_mul_overflow(x, y, &result))
            return wide_op(run, op, a, b, out);
        break;
    case 'f':
        if (y == -1)
            return jinja_number_negate(run, a, out);
        result = x / y - (x % y != 0 && (x < 0) != (y < 0));
        break;
    default:
        if (y != -1)
            result = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
        break;
    }
    *out = jinja_int(result);
    return true;
}

/* Python's x // y, with its sign of zero. */
static double floor_divide(double x, double y)
{
    double rest = fmod(x, y), quotient = (x - rest) / y;

    if (rest != 0.0 && (y < 0) != (rest < 0))
        quotient -= 1.0;
    if (quotient == 0.0)
        return copysign(0.0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

static bool float_op(struct jinja_run *run, char op, double x, double y, struct jinja_value *out)
{
    double result = 0.0;

    switch (op) {
    case '+':
        result = x + y;
        break;
    case '-':
        result = x - y;
        break;
    case '*':
        result = x * y;
        break;
    case '/':
        result = x / y;
        break;
    case 'f':
        result = floor_divide(x, y);
        break;
    case '%':
        result = fmod(x, y);
        if (result != 0.0 && (y < 0) != (result < 0))
            result += y;
        else if (result == 0.0)
            result = copysign(0.0, y);
        break;
    default:
        if (x == 0.0 && y < 0)
            return jinja_fail(run, "0.0 cannot be raised to a negative power");
        if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
            return jinja_fail(run, "a negative number to a broken power is not supported");
        result = pow(x, y);
        if (isinf(result) && isfinite(x) && isfinite(y))
            return jinja_fail(run, "(34, 'Numerical result out of range')");
        break;
    }
    *out = jinja_float(result);
    return true;
}

bool jinja_number_op(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                     struct jinja_value *out)
{
    bool integers = jinja_is_integer(a) && jinja_is_integer(b);

    if ((op == '/' || op == 'f' || op == '%') && jinja_to_double(b) == 0.0)
        return jinja_fail(run, op == '/'   ? "division by zero"
                               : op == '%' ? "integer modulo by zero"
                                           : "integer division or modulo by zero");
    if (integers && op == 'p' && jinja_clamp_int(b) >= 0)
        return int_power(run, a, jinja_clamp_int(b), out);
    if (integers && op != '/' && op != 'p')
        return int_op(run, op, a, b, out);
    double x = jinja_to_double(a), y = jinja_to_double(b);
    if ((isinf(x) && a.type == JINJA_BIGINT) || (isinf(y) && b.type == JINJA_BIGINT))
        return jinja_fail(run, "int too large to convert to float");
    return float_op(run, op, x, y, out);
}

bool jinja_number_negate(struct jinja_run *run, struct jinja_value a, struct jinja_value *out)
{
    if (a.type == JINJA_FLOAT) {
        *out = jinja_float(-a.number);
        return true;
    }
    return int_op(run, '-', jinja_int(0), a, out);
}

int jinja_compare_numbers(struct jinja_value a, struct jinja_value b)
{
    if (jinja_is_integer(a) && jinja_is_integer(b)) {
        if (a.type != JINJA_BIGINT && b.type != JINJA_BIGINT)
            return (small(a) > small(b)) - (small(a) < small(b));
        struct wide x, y;
        wide_from_value(a, &x);
        wide_from_value(b, &y);
        return wide_compare(&x, &y);
    }
    double x = jinja_to_double(a), y = jinja_to_double(b);
    if (isnan(x) || isnan(y))
        return 2;
    if (a.type == b.type || isinf(x) || isinf(y) || x != y)
        return (x > y) - (x < y);
    /* An integer and a float that look the same as doubles: compare as integers. */
    struct wide whole, other;
    if (a.type == JINJA_FLOAT) {
        wide_from_double(x, &whole);
        wide_from_value(b, &other);
    } else {
        wide_from_value(a, &whole);
        wide_from_double(y, &other);
    }
    return wide_compare(&whole, &other);
}

/* ---- text ---- */

size_t jinja_print_int(struct jinja_value value, char *out)
{
    if (value.type == JINJA_BIGINT) {
        struct wide wide;
        wide_from_value(value, &wide);
        return wide_print(&wide, out);
    }
    return (size_t)snprintf(out, 24, "%lld", (long long)small(value));
}

size_t jinja_print_float(double value, char *out)
{
    char digits[40];
    size_t size = 0;

    if (isnan(value))
        return (size_t)snprintf(out, 8, "nan");
    if (isinf(value))
        return (size_t)snprintf(out, 8, "%s", value < 0 ? "-inf" : "inf");
    for (int precision = 0; precision <= 16; precision++) { /* the shortest that reads back */
        snprintf(digits, sizeof(digits), "%.*e", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (digits[0] == '-')
        out[size++] = '-';
    char mantissa[24] = {0};
    int num_digits = 0;
    for (const char *p = digits; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            mantissa[num_digits++] = *p;
    }
    if (exponent < -4 || exponent >= 16) {
        out[size++] = mantissa[0];
        if (num_digits > 1)
            out[size++] = '.';
        for (int i = 1; i < num_digits; i++)
            out[size++] = mantissa[i];
        return size + (size_t)snprintf(out + size, 8, "e%+03d", exponent);
    }
    if (exponent < 0)
        out[size++] = '0';
    for (int i = 0; i <= exponent; i++)
        out[size++] = i < num_digits ? mantissa[i] : '0';
    out[size++] = '.';
    for (int i = exponent + 1; i < 0; i++)
        out[size++] = '0';
    for (int i = exponent < 0 ? 0 : exponent + 1; i < num_digits; i++)
        out[size++] = mantissa[i];
    if (out[size - 1] == '.')
        out[size++] = '0';
    out[size] = '\0';
    return size;
}

static void trim(const char **data, size_t *size)
{
    size_t start = 0, end = *size;

    while (start < end) {
        size_t next = start;
        if (!jinja_char_is(jinja_next_char(*data, end, &next), JINJA_CHAR_SPACE))
            break;
        start = next;
    }
    while (end > start) {
        size_t previous = end;
        if (!jinja_char_is(jinja_previous_char(*data, &previous), JINJA_CHAR_SPACE))
            break;
        end = previous;
    }
    *data += start;
    *size = end - start;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* The base that a prefix such as 0x names, or 0. */
static int prefix_base(const char *data, size_t size)
{
    if (size < 2 || data[0] != '0')
        return 0;
    switch (data[1] | 0x20) {
    case 'x':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 0;
    }
}

bool jinja_parse_int(struct jinja_run *run, const char *data, size_t size, int base, bool *out_ok,
                     struct jinja_value *out)
{
    struct wide wide;
    bool negative = false, after_digit = false;

    wide.num_limbs = 0;
    *out_ok = false;
    trim(&data, &size);
    if (size > 0 && (*data == '-' || *data == '+')) {
        negative = *data == '-';
        data++;
        size--;
    }
    int prefix = prefix_base(data, size);
    if (prefix && (base == prefix || base == 0)) {
        base = prefix;
        data += 2;
        size -= 2;
        after_digit = true; /* 0x_1 is fine */
    }
    if (base == 0)
        base = 10;
    size_t cost = size < JINJA_BIGINT_TEXT_SIZE ? size * size / 1024 : size / 4;
    if (size == 0 || !jinja_step(run, cost))
        return !run->status.code;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '_' && after_digit && i + 1 < size) {
            after_digit = false;
            continue;
        }
        int digit = digit_value(data[i]);
        if (digit >= base)
            return true;
        if (!wide_push_digit(&wide, (uint32_t)base, (uint32_t)digit))
            return jinja_fail(run, "an integer has too many digits");
        after_digit = true;
    }
    wide.is_negative = negative && wide.num_limbs > 0;
    *out_ok = true;
    return wide_to_value(run, &wide, out);
}

bool jinja_parse_float(const char *data, size_t size, double *out)
{
    char text[512];
    size_t length = 0;
    char *end = NULL;

    trim(&data, &size);
    if (size == 0 || size >= sizeof(text))
        return false;
    for (size_t i = 0; i < size; i++) {
        bool between =
            i > 0 && i + 1 < size && digit_value(data[i - 1]) < 10 && digit_value(data[i + 1]) < 10;
        if (data[i] == '_' && between)
            continue;
        if (data[i] == '\0' || ((data[i] | 0x20) == 'x') || data[i] == '(' || data[i] == '_')
            return false; /* strtod would read hexadecimal and nan(...) */
        text[length++] = data[i];
    }
    text[length] = '\0';
    *out = strtod(text, &end);
    return end == text + length;
}

bool jinja_truncate(struct jinja_run *run, double number, struct jinja_value *out)
{
    struct wide wide;

    if (isnan(number))
        return jinja_fail(run, "cannot convert float NaN to integer");
    if (isinf(number))
        return jinja_fail(run, "cannot convert float infinity to integer");
    wide_from_double(number, &wide);
    return wide_to_value(run, &wide, out);
}

bool jinja_number_from_json(struct jinja_run *run, const struct json_value *json,
                            struct jinja_value *out)
{
    bool ok = false;

    if (json->is_integer) {
        /* -0 is an integer, 0, to Python's json too. */
        *out = jinja_int(json->integer);
        return true;
    }
    for (size_t i = 0; i < json->text.size; i++) {
        char c = json->text.data[i];
        if (c == '.' || c == 'e' || c == 'E') {
            *out = jinja_float(json->number);
            return true;
        }
    }
    return jinja_parse_int(run, json->text.data, json->text.size, 10, &ok, out);
}
