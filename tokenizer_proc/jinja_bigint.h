/*
 * jinja_bigint.h - integers beyond 64 bits, for jinja_number.c alone.
 *
 * A struct wide is the working form: sign and magnitude, always normalised (no leading zero limb,
 * zero is not negative).
 */
#ifndef TOKENIZER_PROC_JINJA_BIGINT_H
#define TOKENIZER_PROC_JINJA_BIGINT_H

#include "tokenizer_proc/jinja_number.h"

struct wide {
    bool is_negative;
    int32_t num_limbs;
    uint32_t limbs[2 * JINJA_BIGINT_MAX_LIMBS + 1];
};

void wide_from_value(struct jinja_value value, struct wide *out); /* bool, int or bigint */
void wide_from_double(double value, struct wide *out);            /* towards zero; finite */
/* The smallest type that holds it; fails beyond JINJA_BIGINT_MAX_LIMBS. */
bool wide_to_value(struct jinja_run *run, const struct wide *wide, struct jinja_value *out);
double wide_to_double(const struct wide *wide);

int wide_compare(const struct wide *a, const struct wide *b);
void wide_add(const struct wide *a, const struct wide *b, struct wide *out);
/* False when the product is too large. */
bool wide_multiply(const struct wide *a, const struct wide *b, struct wide *out);
/* Python's: the quotient towards minus infinity, the rest with the sign of b. b is not zero. */
void wide_divide(const struct wide *a, const struct wide *b, struct wide *out_quotient,
                 struct wide *out_rest);
/* out = out * factor + digit; false when too large. */
bool wide_push_digit(struct wide *out, uint32_t factor, uint32_t digit);
size_t wide_print(const struct wide *wide, char *out);

#endif
