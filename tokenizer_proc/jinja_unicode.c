/*
 * jinja_unicode.c - see jinja_unicode.h. Tables sorted by character, searched by halves.
 */
#include "tokenizer_proc/jinja_unicode.h"

#include <stddef.h>

/* From this character on, until the next row. */
struct char_flags {
    uint32_t first;
    uint32_t flags;
};

/* Every stride-th character from first to last moves by delta. */
struct char_run {
    uint32_t first, last, stride;
    int32_t delta;
};

/* A character that becomes several; 0 ends them. */
struct char_special {
    uint32_t character;
    uint32_t to[3];
};

#include "tokenizer_proc/jinja_unicode_tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

uint32_t jinja_char_flags(uint32_t character)
{
    size_t low = 0, high = COUNT(char_flags);

    while (high - low > 1) { /* row low starts at or before the character, row high behind it */
        size_t middle = low + (high - low) / 2;
        if (char_flags[middle].first <= character)
            low = middle;
        else
            high = middle;
    }
    return char_flags[low].flags;
}

static const struct char_special *find_special(const struct char_special *rows, size_t num_rows,
                                               uint32_t character)
{
    size_t low = 0, high = num_rows;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].character < character)
            low = middle + 1;
        else
            high = middle;
    }
    return low < num_rows && rows[low].character == character ? &rows[low] : NULL;
}

static uint32_t find_run(const struct char_run *rows, size_t num_rows, uint32_t character)
{
    size_t low = 0, high = num_rows;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows[middle].last < character)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == num_rows || rows[low].first > character ||
        (character - rows[low].first) % rows[low].stride != 0)
        return character;
    return (uint32_t)((int32_t)character + rows[low].delta);
}

int jinja_map_case(uint32_t character, enum jinja_case to, uint32_t out[3])
{
    static const struct {
        const struct char_run *runs;
        size_t num_runs;
        const struct char_special *specials;
        size_t num_specials;
    } maps[] = {
        [JINJA_UPPER] = {upper_runs, COUNT(upper_runs), upper_specials, COUNT(upper_specials)},
        [JINJA_LOWER] = {lower_runs, COUNT(lower_runs), lower_specials, COUNT(lower_specials)},
        [JINJA_TITLE] = {title_runs, COUNT(title_runs), title_specials, COUNT(title_specials)},
        [JINJA_FOLD] = {fold_runs, COUNT(fold_runs), fold_specials, COUNT(fold_specials)},
    };

    if (character < 0x80) {
        bool lower = character >= 'a' && character <= 'z';
        bool upper = character >= 'A' && character <= 'Z';
        bool wants_upper = to == JINJA_UPPER || to == JINJA_TITLE;
        out[0] = (wants_upper && lower) || (!wants_upper && upper) ? character ^ 0x20 : character;
        return 1;
    }
    const struct char_special *special =
        find_special(maps[to].specials, maps[to].num_specials, character);
    if (special) {
        int count = 0;
        while (count < 3 && special->to[count]) {
            out[count] = special->to[count];
            count++;
        }
        return count;
    }
    out[0] = find_run(maps[to].runs, maps[to].num_runs, character);
    return 1;
}
