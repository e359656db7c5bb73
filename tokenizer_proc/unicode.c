/* unicode.c - see unicode.h. */
#include "tokenizer_proc/unicode.h"

/* Hangul syllables are L + V (+ T), by arithmetic: Unicode 9.0, section 3.12. */
enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_NUM_L = 19,
    HANGUL_NUM_V = 21,
    HANGUL_NUM_T = 28,
    HANGUL_NUM_S = HANGUL_NUM_L * HANGUL_NUM_V * HANGUL_NUM_T,
};

uint8_t unicode_ccc(uint32_t code)
{
    size_t low = 0, high = UNICODE_NUM_CCC;

    if (code < unicode_ccc_ranges[0].first)
        return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > unicode_ccc_ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < UNICODE_NUM_CCC && code >= unicode_ccc_ranges[low].first)
        return unicode_ccc_ranges[low].ccc;
    return 0;
}

const struct unicode_pair *unicode_decomposition(uint32_t code)
{
    size_t low = 0, high = UNICODE_NUM_DECOMPOSITIONS;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > unicode_decompositions[middle].code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < UNICODE_NUM_DECOMPOSITIONS && unicode_decompositions[low].code == code)
        return &unicode_decompositions[low];
    return NULL;
}

static uint32_t compose_hangul(uint32_t first, uint32_t second)
{
    uint32_t l = first - HANGUL_L, v = second - HANGUL_V;
    uint32_t s = first - HANGUL_S, t = second - HANGUL_T;

    if (l < HANGUL_NUM_L && v < HANGUL_NUM_V)
        return HANGUL_S + (l * HANGUL_NUM_V + v) * HANGUL_NUM_T;
    if (s < HANGUL_NUM_S && s % HANGUL_NUM_T == 0 && t > 0 && t < HANGUL_NUM_T)
        return first + t;
    return 0;
}

uint32_t unicode_compose(uint32_t first, uint32_t second)
{
    size_t low = 0, high = UNICODE_NUM_COMPOSITIONS;
    uint32_t hangul = compose_hangul(first, second);

    if (hangul)
        return hangul;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_pair *pair = &unicode_decompositions[unicode_compositions[middle]];
        if (pair->first == first && pair->second == second)
            return pair->code;
        if (pair->first < first || (pair->first == first && pair->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
