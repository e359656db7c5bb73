/*
 * jinja_number.h - Python's numbers: integers of (nearly) any size, and floats.
 *
 * An integer is JINJA_INT as long as it fits into int64, else JINJA_BIGINT; bool counts as 0 or 1.
 * Integers beyond 4300 digits are refused, which is also where Python refuses to print them.
 */
#ifndef TOKENIZER_PROC_JINJA_NUMBER_H
#define TOKENIZER_PROC_JINJA_NUMBER_H

#include "tokenizer_proc/jinja_value.h"

struct jinja_bigint {
    bool is_negative;
    int32_t num_limbs;
    uint32_t limbs[]; /* the least significant first; the last is not 0 */
};

enum { JINJA_BIGINT_MAX_LIMBS = 448, JINJA_BIGINT_TEXT_SIZE = 4400 };

/* The operators of two numbers: '+', '-', '*', '/', 'f' for floor division, '%', 'p' for power. */
bool jinja_number_op(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b,
                     struct jinja_value *out);
bool jinja_number_negate(struct jinja_run *run, struct jinja_value a, struct jinja_value *out);

/* -1, 0, 1; 2 when one of them is not a number (nan). */
int jinja_compare_numbers(struct jinja_value a, struct jinja_value b);

double jinja_to_double(struct jinja_value value);

/* As Python prints them, with a NUL: "1e+16", "0.1", "100.0"; out holds JINJA_BIGINT_TEXT_SIZE. */
size_t jinja_print_int(struct jinja_value value, char *out);
size_t jinja_print_float(double value, char *out);

/* int(text) and float(text): white space around, underscores between digits; base 2 to 36, or 0 by
 * prefix. *out_ok false when the text is no number. */
bool jinja_parse_int(struct jinja_run *run, const char *data, size_t size, int base, bool *out_ok,
                     struct jinja_value *out);
bool jinja_parse_float(const char *data, size_t size, double *out);

/* int(number): towards zero. Fails for infinities and nan. */
bool jinja_truncate(struct jinja_run *run, double number, struct jinja_value *out);

bool jinja_number_from_json(struct jinja_run *run, const struct json_value *json,
                            struct jinja_value *out);

/* An int64 for an index, a count, a width; out of range becomes the nearest. */
int64_t jinja_clamp_int(struct jinja_value value);

#endif
