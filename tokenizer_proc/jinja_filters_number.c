/*
 * jinja_filters_number.c - filters that make numbers, or work on them. See jinja_functions.h.
 */
#include <math.h>
#include <stdlib.h>

#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_number.h"
#include "tokenizer_proc/jinja_print.h"

static bool absolute(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(value));
    if (value.type == JINJA_FLOAT) {
        *out = jinja_float(fabs(value.number));
        return true;
    }
    if (jinja_compare_numbers(value, jinja_int(0)) < 0)
        return jinja_number_negate(run, value, out);
    *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
    return true;
}

static bool to_int(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;
    int64_t base = 10;
    bool ok = false;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (call->bound[1].type != JINJA_MISSING && !jinja_want_int(run, call->bound[1], &base))
        return false;
    *out = call->bound[0].type == JINJA_MISSING ? jinja_int(0) : call->bound[0];
    if (value.type == JINJA_STRING) {
        double number = 0.0;
        if (base != 0 && (base < 2 || base > 36))
            base = 10;
        struct jinja_value parsed = {0};
        if (!jinja_parse_int(run, value.string->data, value.string->size, (int)base, &ok, &parsed))
            return false;
        if (ok) {
            *out = parsed;
            return true;
        }
        if (!jinja_parse_float(value.string->data, value.string->size, &number) ||
            !isfinite(number))
            return true;
        return jinja_truncate(run, number, out);
    }
    if (value.type == JINJA_FLOAT)
        return isfinite(value.number) ? jinja_truncate(run, value.number, out) : true;
    if (jinja_is_integer(value))
        *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
    return true;
}

static bool to_float(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_value value = call->self;
    double number = 0.0;

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    *out = call->bound[0].type == JINJA_MISSING ? jinja_float(0.0) : call->bound[0];
    if (jinja_is_number(value))
        *out = jinja_float(jinja_to_double(value));
    else if (value.type == JINJA_STRING &&
             jinja_parse_float(value.string->data, value.string->size, &number))
        *out = jinja_float(number);
    return true;
}

/* Python's round(): to the nearest, halves to even, as the decimal digits say. */
static double round_common(double number, int64_t precision)
{
    char text[400];

    if (precision > 22 || !isfinite(number))
        return number;
    if (precision < 0) {
        double power = pow(10.0, (double)-precision);
        return isfinite(power) ? rint(number / power) * power : 0.0;
    }
    snprintf(text, sizeof(text), "%.*f", (int)precision, number);
    return strtod(text, NULL);
}

static bool round_number(struct jinja_run *run, const struct jinja_call *call,
                         struct jinja_value *out)
{
    struct jinja_value value = call->self;
    int64_t precision = 0;
    const struct jinja_string *method = NULL;
    static const struct jinja_string common = {.data = "common", .size = 6};

    if (value.type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    method = &common;
    if (call->bound[0].type != JINJA_MISSING && !jinja_want_int(run, call->bound[0], &precision))
        return false;
    if (call->bound[1].type != JINJA_MISSING && !jinja_want_string(run, call->bound[1], &method))
        return false;
    bool up = jinja_string_is(method, "ceil"), down = jinja_string_is(method, "floor");
    if (!up && !down && !jinja_string_is(method, "common"))
        return jinja_fail(run, "method must be common, ceil or floor");
    if (!jinja_is_number(value))
        return jinja_fail(run, "type %s doesn't define __round__ method", jinja_type_name(value));
    if (!up && !down) {
        if (jinja_is_integer(value) && precision >= 0) {
            *out = value.type == JINJA_BOOL ? jinja_int(value.boolean) : value;
            return true;
        }
        double rounded = round_common(jinja_to_double(value), precision);
        if (jinja_is_integer(value))
            return jinja_truncate(run, rounded, out);
        *out = jinja_float(rounded);
        return true;
    }
    double power = pow(10.0, (double)precision);
    double scaled = jinja_to_double(value) * power;
    *out = jinja_float((up ? ceil(scaled) : floor(scaled)) / power);
    if (!isfinite(out->number))
        return jinja_fail(run, "cannot convert float infinity to integer");
    return true;
}

static bool filesizeformat(struct jinja_run *run, const struct jinja_call *call,
                           struct jinja_value *out)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool is_binary = jinja_is_true(call->bound[0]);
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value value = {0};
    double base = is_binary ? 1024.0 : 1000.0, unit = base;
    char text[400];
    int i = 0;

    struct jinja_call number = {.self = call->self};
    number.bound[0] = jinja_none();
    if (!to_float(run, &number, &value))
        return false;
    if (value.type != JINJA_FLOAT)
        return jinja_fail(run, "could not convert to float");
    if (value.number == 1.0) {
        snprintf(text, sizeof(text), "1 Byte");
    } else if (value.number < base) {
        snprintf(text, sizeof(text), "%.0f Bytes", trunc(value.number));
    } else {
        for (unit = base * base; i < 7 && value.number >= unit; i++)
            unit *= base;
        snprintf(text, sizeof(text), "%.1f %s", base * value.number / unit,
                 is_binary ? binary[i] : decimal[i]);
    }
    return jinja_buffer_add_text(&buffer, text) && jinja_buffer_finish(&buffer, out);
}

const struct jinja_function jinja_number_filters[] = {
    {"abs", absolute, "", 0},
    {"filesizeformat", filesizeformat, "binary ", 0},
    {"float", to_float, "default ", 0},
    {"int", to_int, "default base ", 0},
    {"round", round_number, "precision method ", 0},
    {0},
};
