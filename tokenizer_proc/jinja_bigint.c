/*
 * jinja_bigint.c - see jinja_bigint.h. Schoolbook methods: numbers of a template are short.
 */
#include "tokenizer_proc/jinja_bigint.h"

#include <math.h>
#include <string.h>

static void normalise(struct wide *wide)
{
    while (wide->num_limbs > 0 && wide->limbs[wide->num_limbs - 1] == 0)
        wide->num_limbs--;
    if (wide->num_limbs == 0)
        wide->is_negative = false;
}

static void copy(struct wide *to, const struct wide *from)
{
    to->is_negative = from->is_negative;
    to->num_limbs = from->num_limbs;
    memmove(to->limbs, from->limbs, (size_t)from->num_limbs * sizeof(from->limbs[0]));
}

void wide_from_value(struct jinja_value value, struct wide *out)
{
    uint64_t magnitude;

    if (value.type == JINJA_BIGINT) {
        out->is_negative = value.big->is_negative;
        out->num_limbs = value.big->num_limbs;
        memcpy(out->limbs, value.big->limbs, (size_t)out->num_limbs * sizeof(out->limbs[0]));
        return;
    }
    int64_t integer = value.type == JINJA_BOOL ? value.boolean : value.integer;
    out->is_negative = integer < 0;
    magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    out->limbs[0] = (uint32_t)magnitude;
    out->limbs[1] = (uint32_t)(magnitude >> 32);
    out->num_limbs = 2;
    normalise(out);
}

void wide_from_double(double value, struct wide *out)
{
    int exponent;
    double fraction = frexp(fabs(trunc(value)), &exponent); /* 0.5 <= fraction < 1 */
    uint64_t bits = (uint64_t)ldexp(fraction, 53);
    int shift = exponent - 53;

    if (shift < 0) {
        bits = shift <= -64 ? 0 : bits >> -shift;
        shift = 0;
    }
    out->is_negative = value < 0;
    out->num_limbs = shift / 32 + 3;
    memset(out->limbs, 0, (size_t)out->num_limbs * sizeof(out->limbs[0]));
    int limb = shift / 32, bit = shift % 32;
    out->limbs[limb] = (uint32_t)(bits << bit);
    out->limbs[limb + 1] = (uint32_t)(bits >> (32 - bit));
    if (bit > 0)
        out->limbs[limb + 2] = (uint32_t)(bits >> 32 >> (32 - bit));
    normalise(out);
}

bool wide_to_value(struct jinja_run *run, const struct wide *wide, struct jinja_value *out)
{
    if (wide->num_limbs > JINJA_BIGINT_MAX_LIMBS)
        return jinja_fail_space(run, "an integer is too large");
    if (wide->num_limbs <= 2) {
        uint64_t magnitude = 0;
        for (int32_t i = wide->num_limbs; i > 0; i--)
            magnitude = magnitude << 32 | wide->limbs[i - 1];
        if (magnitude <= (uint64_t)INT64_MAX + wide->is_negative) {
            *out = jinja_int((int64_t)(wide->is_negative ? 0 - magnitude : magnitude));
            return true;
        }
    }
    size_t size = (size_t)wide->num_limbs * sizeof(wide->limbs[0]);
    struct jinja_bigint *big = jinja_alloc(run, 1, sizeof(*big) + size);
    if (!big)
        return false;
    big->is_negative = wide->is_negative;
    big->num_limbs = wide->num_limbs;
    memcpy(big->limbs, wide->limbs, size);
    *out = (struct jinja_value){.type = JINJA_BIGINT, .big = big};
    return true;
}

/* Rounds to the nearest, ties to even, by folding all lower limbs into a sticky bit. */
double wide_to_double(const struct wide *wide)
{
    int32_t top = wide->num_limbs - 1;
    uint64_t high = 0;
    uint32_t sticky = 0;

    if (top < 0)
        return 0.0;
    high = wide->limbs[top];
    if (top >= 1)
        high = high << 32 | wide->limbs[top - 1];
    int32_t used = top >= 1 ? 2 : 1;
    int lead = high ? __builtin_clzll(high) : 0;
    if (top >= 2 && lead > 0) {
        high = high << lead | wide->limbs[top - 2] >> (32 - lead);
        sticky |= wide->limbs[top - 2] << lead;
    } else if (top >= 2) {
        sticky |= wide->limbs[top - 2];
    } else {
        lead = 0;
    }
    for (int32_t i = 0; i + 2 < top; i++)
        sticky |= wide->limbs[i];
    if (sticky)
        high |= 1; /* 64 bits are 11 more than a double holds */
    double value = ldexp((double)high, 32 * (wide->num_limbs - used) - lead);
    return wide->is_negative ? -value : value;
}

static int compare_magnitudes(const struct wide *a, const struct wide *b)
{
    if (a->num_limbs != b->num_limbs)
        return a->num_limbs < b->num_limbs ? -1 : 1;
    for (int32_t i = a->num_limbs; i > 0; i--) {
        if (a->limbs[i - 1] != b->limbs[i - 1])
            return a->limbs[i - 1] < b->limbs[i - 1] ? -1 : 1;
    }
    return 0;
}

int wide_compare(const struct wide *a, const struct wide *b)
{
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->is_negative ? -order : order;
}

static void add_magnitudes(const struct wide *a, const struct wide *b, struct wide *out)
{
    int32_t num_limbs = a->num_limbs > b->num_limbs ? a->num_limbs : b->num_limbs;
    uint64_t carry = 0;

    for (int32_t i = 0; i < num_limbs; i++) {
        carry += i < a->num_limbs ? a->limbs[i] : 0;
        carry += i < b->num_limbs ? b->limbs[i] : 0;
        out->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    out->limbs[num_limbs] = (uint32_t)carry;
    out->num_limbs = num_limbs + 1;
}

/* a >= b by magnitude. */
static void subtract_magnitudes(const struct wide *a, const struct wide *b, struct wide *out)
{
    uint64_t borrow = 0;

    for (int32_t i = 0; i < a->num_limbs; i++) {
        uint64_t take = borrow + (i < b->num_limbs ? b->limbs[i] : 0);
        borrow = a->limbs[i] < take;
        out->limbs[i] = (uint32_t)(a->limbs[i] - take);
    }
    out->num_limbs = a->num_limbs;
}

void wide_add(const struct wide *a, const struct wide *b, struct wide *out)
{
    if (a->is_negative == b->is_negative) {
        out->is_negative = a->is_negative;
        add_magnitudes(a, b, out);
    } else if (compare_magnitudes(a, b) >= 0) {
        out->is_negative = a->is_negative;
        subtract_magnitudes(a, b, out);
    } else {
        out->is_negative = b->is_negative;
        subtract_magnitudes(b, a, out);
    }
    normalise(out);
}

bool wide_multiply(const struct wide *a, const struct wide *b, struct wide *out)
{
    if (a->num_limbs + b->num_limbs > JINJA_BIGINT_MAX_LIMBS + 1)
        return false;
    out->num_limbs = a->num_limbs + b->num_limbs;
    memset(out->limbs, 0, (size_t)out->num_limbs * sizeof(out->limbs[0]));
    for (int32_t i = 0; i < a->num_limbs; i++) {
        uint64_t carry = 0;
        for (int32_t j = 0; j < b->num_limbs; j++) {
            carry += (uint64_t)a->limbs[i] * b->limbs[j] + out->limbs[i + j];
            out->limbs[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out->limbs[i + b->num_limbs] = (uint32_t)carry;
    }
    out->is_negative = a->is_negative != b->is_negative;
    normalise(out);
    return true;
}

/* One bit of the quotient at a time: rest = rest * 2 + next bit of a; subtract b if it goes. */
static void divide_magnitudes(const struct wide *a, const struct wide *b, struct wide *quotient,
                              struct wide *rest)
{
    quotient->num_limbs = a->num_limbs;
    memset(quotient->limbs, 0, (size_t)a->num_limbs * sizeof(a->limbs[0]));
    rest->num_limbs = 0;
    rest->is_negative = false;
    for (int32_t bit = a->num_limbs * 32 - 1; bit >= 0; bit--) {
        uint32_t carry = a->limbs[bit / 32] >> (bit % 32) & 1;
        for (int32_t i = 0; i < rest->num_limbs; i++) {
            uint32_t next = rest->limbs[i] >> 31;
            rest->limbs[i] = rest->limbs[i] << 1 | carry;
            carry = next;
        }
        if (carry)
            rest->limbs[rest->num_limbs++] = carry;
        if (compare_magnitudes(rest, b) < 0)
            continue;
        subtract_magnitudes(rest, b, rest);
        normalise(rest);
        quotient->limbs[bit / 32] |= (uint32_t)1 << (bit % 32);
    }
    normalise(quotient);
}

void wide_divide(const struct wide *a, const struct wide *b, struct wide *out_quotient,
                 struct wide *out_rest)
{
    static const struct wide minus_one = {.is_negative = true, .num_limbs = 1, .limbs = {1}};

    divide_magnitudes(a, b, out_quotient, out_rest);
    if (a->is_negative == b->is_negative) {
        out_quotient->is_negative = false;
        out_rest->is_negative = b->is_negative && out_rest->num_limbs > 0;
        return;
    }
    out_quotient->is_negative = out_quotient->num_limbs > 0;
    out_rest->is_negative = a->is_negative && out_rest->num_limbs > 0;
    if (out_rest->num_limbs > 0) { /* towards minus infinity */
        struct wide sum = {0};
        wide_add(out_quotient, &minus_one, &sum);
        copy(out_quotient, &sum);
        wide_add(out_rest, b, &sum);
        copy(out_rest, &sum);
    }
}

bool wide_push_digit(struct wide *out, uint32_t factor, uint32_t digit)
{
    uint64_t carry = digit;

    for (int32_t i = 0; i < out->num_limbs; i++) {
        carry += (uint64_t)out->limbs[i] * factor;
        out->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) {
        if (out->num_limbs >= JINJA_BIGINT_MAX_LIMBS)
            return false;
        out->limbs[out->num_limbs++] = (uint32_t)carry;
    }
    return true;
}

size_t wide_print(const struct wide *wide, char *out)
{
    struct wide rest = {0};
    size_t size = 0;

    copy(&rest, wide);
    do { /* nine digits at a time, from the last, then turned around */
        uint64_t carry = 0;
        for (int32_t i = rest.num_limbs; i > 0; i--) {
            carry = carry << 32 | rest.limbs[i - 1];
            rest.limbs[i - 1] = (uint32_t)(carry / 1000000000);
            carry %= 1000000000;
        }
        normalise(&rest);
        for (int digit = 0; digit < 9 && (rest.num_limbs > 0 || carry > 0 || size == 0); digit++) {
            out[size++] = (char)('0' + carry % 10);
            carry /= 10;
        }
    } while (rest.num_limbs > 0);
    if (wide->is_negative)
        out[size++] = '-';
    for (size_t i = 0; i < size / 2; i++) {
        char swap = out[i];
        out[i] = out[size - 1 - i];
        out[size - 1 - i] = swap;
    }
    out[size] = '\0';
    return size;
}
