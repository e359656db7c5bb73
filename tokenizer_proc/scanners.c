/*
 * scanners.c - see scanners.h.
 *
 * In the patterns, alternatives are tried from left to right, and the first that matches wins.
 * Where a pattern would backtrack, the comment says what that comes to.
 */
#include "tokenizer_proc/scanners.h"

#include <string.h>

#include "tokenizer_proc/unicode.h"

/* Behind all characters that have one of the classes. */
static inline const uint8_t *skip_in(const uint8_t *p, const uint8_t *end, unsigned classes)
{
    size_t size;

    while (p < end && unicode_class_at(p, &size) & classes)
        p += size;
    return p;
}

/* Behind all characters that have none of the classes. */
static inline const uint8_t *skip_not_in(const uint8_t *p, const uint8_t *end, unsigned classes)
{
    size_t size;

    while (p < end && !(unicode_class_at(p, &size) & classes))
        p += size;
    return p;
}

static inline bool is_in(const uint8_t *p, const uint8_t *end, unsigned classes)
{
    size_t size;

    return p < end && unicode_class_at(p, &size) & classes;
}

static inline bool is_newline(uint8_t c)
{
    return c == '\r' || c == '\n';
}

static inline const uint8_t *skip_newlines(const uint8_t *p, const uint8_t *end)
{
    while (p < end && is_newline(*p))
        p++;
    return p;
}

/* \p{N}{1,max}, the first of which is known to be there and ends at p. */
static inline const uint8_t *skip_numbers(const uint8_t *p, const uint8_t *end, int max)
{
    size_t size;

    for (int i = 1; i < max && p < end && unicode_class_at(p, &size) & UNICODE_NUMBER; i++)
        p += size;
    return p;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d) at the apostrophe p: its end, or NULL. Ignoring case, the long s
 * (U+017F) is an s too. */
static const uint8_t *match_contraction(const uint8_t *p, const uint8_t *end)
{
    size_t left = (size_t)(end - p);

    if (left < 2)
        return NULL;
    uint8_t a = p[1] | 0x20, b = left > 2 ? p[2] | 0x20 : 0;
    if (p[1] < 0x80 && (a == 's' || a == 't' || a == 'm' || a == 'd'))
        return p + 2;
    if (left > 2 && p[1] == 0xC5 && p[2] == 0xBF)
        return p + 3;
    if (left > 2 && p[1] < 0x80 && p[2] < 0x80 &&
        ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')))
        return p + 3;
    return NULL;
}

/* \s+(?!\S)|\s+ at a white space character: of several before a word, the last one stays with the
 * word. With newlines, \s*[\r\n]+ comes first: up to the last newline of the run. */
static inline const uint8_t *match_space(const uint8_t *p, const uint8_t *end, bool newlines)
{
    const uint8_t *last = p, *behind_newline = NULL, *at = p;
    size_t size;

    while (at < end && unicode_class_at(at, &size) & UNICODE_SPACE) {
        last = at;
        at += size;
        if (is_newline(*last))
            behind_newline = at;
    }
    if (newlines && behind_newline)
        return behind_newline;
    return at == end || last == p ? at : last;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+ matches everywhere. */
static inline const uint8_t *scan_words(const uint8_t *p, const uint8_t *end, int max_numbers)
{
    const unsigned none = UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER;
    size_t size;
    unsigned classes = unicode_class_at(p, &size);
    const uint8_t *next = p + size;

    if (classes & UNICODE_LETTER)
        return skip_in(next, end, UNICODE_LETTER);
    if (classes & UNICODE_NUMBER)
        return skip_numbers(next, end, max_numbers);
    if (*p == '\'') {
        const uint8_t *contraction = match_contraction(p, end);
        if (contraction)
            return contraction;
    }
    if (!is_newline(*p) && is_in(next, end, UNICODE_LETTER))
        return skip_in(next, end, UNICODE_LETTER);
    if (!(classes & UNICODE_SPACE))
        return skip_newlines(skip_not_in(next, end, none), end);
    if (*p == ' ' && next < end && !is_in(next, end, none))
        return skip_newlines(skip_not_in(next, end, none), end);
    return match_space(p, end, true);
}

static const uint8_t *scan_llama3(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    *out_match = true;
    return scan_words(p, end, 3);
}

static const uint8_t *scan_qwen2(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    *out_match = true;
    return scan_words(p, end, 1);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ matches everywhere. */
const uint8_t *scan_gpt2(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    const uint8_t *start = p;
    size_t size;

    *out_match = true;
    if (*p == '\'' && end - p > 1) {
        if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd')
            return p + 2;
        if (end - p > 2 && ((p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') ||
                            (p[1] == 'l' && p[2] == 'l')))
            return p + 3;
    }
    if (*p == ' ' && end - p > 1)
        p++;
    unsigned classes = unicode_class_at(p, &size);
    if (classes & UNICODE_LETTER)
        return skip_in(p + size, end, UNICODE_LETTER);
    if (classes & UNICODE_NUMBER)
        return skip_in(p + size, end, UNICODE_NUMBER);
    if (!(classes & UNICODE_SPACE))
        return skip_not_in(p + size, end, UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER);
    return match_space(start, end, false);
}

/* A segment of characters that have the class, or of those that have not. */
static inline const uint8_t *scan_class(const uint8_t *p, const uint8_t *end, unsigned classes,
                                        bool *out_match)
{
    *out_match = is_in(p, end, classes);
    return *out_match ? skip_in(p, end, classes) : skip_not_in(p, end, classes);
}

/* One at a time; Digits without individual_digits joins them again. */
const uint8_t *scan_numeric(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    size_t size;

    *out_match = unicode_class_at(p, &size) & UNICODE_NUMERIC;
    return *out_match ? p + size : skip_not_in(p, end, UNICODE_NUMERIC);
}

const uint8_t *scan_all(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    (void)p;
    *out_match = true;
    return end;
}

/* \p{N} */
static const uint8_t *scan_number(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    size_t size;

    *out_match = unicode_class_at(p, &size) & UNICODE_NUMBER;
    return *out_match ? p + size : skip_not_in(p, end, UNICODE_NUMBER);
}

/* \p{N}+ */
static const uint8_t *scan_numbers(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    return scan_class(p, end, UNICODE_NUMBER, out_match);
}

/* \p{N}{1,3} */
static const uint8_t *scan_three_numbers(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    size_t size;

    *out_match = unicode_class_at(p, &size) & UNICODE_NUMBER;
    return *out_match ? skip_numbers(p + size, end, 3) : skip_not_in(p, end, UNICODE_NUMBER);
}

static inline bool is_han_or_kana(uint32_t code)
{
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
}

/* [\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+ */
static const uint8_t *scan_han_and_kana(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    size_t size;

    *out_match = is_han_or_kana(unicode_decode(p, &size));
    for (p += size; p < end && is_han_or_kana(unicode_decode(p, &size)) == *out_match; p += size)
        ;
    return p;
}

static inline bool is_ascii_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* One match of DeepSeek V3's last pattern at p, or NULL:
 * [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 * | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const uint8_t *match_deepseek(const uint8_t *p, const uint8_t *end)
{
    const unsigned word = UNICODE_LETTER | UNICODE_MARK;
    size_t size;
    unsigned classes = unicode_class_at(p, &size);
    const uint8_t *next = p + size;

    if (*p < 0x80 && classes & UNICODE_SYMBOL && next < end && is_ascii_letter(*next)) {
        while (next < end && is_ascii_letter(*next))
            next++;
        return next;
    }
    /* A mark may stand for the optional character or for the first of the run: the same end. */
    if (classes & word)
        return skip_in(next, end, word);
    if (!(classes & UNICODE_SYMBOL) && !is_newline(*p) && is_in(next, end, word))
        return skip_in(next, end, word);
    if (classes & UNICODE_SYMBOL)
        return skip_newlines(skip_in(next, end, UNICODE_SYMBOL), end);
    if (*p == ' ' && is_in(next, end, UNICODE_SYMBOL))
        return skip_newlines(skip_in(next, end, UNICODE_SYMBOL), end);
    return classes & UNICODE_SPACE ? match_space(p, end, true) : NULL;
}

static const uint8_t *scan_deepseek(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    const uint8_t *match = match_deepseek(p, end);
    size_t size;

    *out_match = match != NULL;
    while (!match) {
        unicode_decode(p, &size);
        p += size;
        if (p == end)
            return end;
        if (match_deepseek(p, end))
            return p;
    }
    return match;
}

static const uint8_t *skip_contraction(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *contraction = p < end && *p == '\'' ? match_contraction(p, end) : NULL;

    return contraction ? contraction : p;
}

/* [upper]*[lower]+ at p, or NULL. The first run may take characters that are both; when no lower
 * one follows it gives back up to the last of those, and all that comes behind stays out of the
 * match. */
static const uint8_t *match_lower_word(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *behind_both = NULL;
    size_t size;

    while (p < end) {
        unsigned classes = unicode_class_at(p, &size);
        if (!(classes & UNICODE_UPPER))
            break;
        p += size;
        if (classes & UNICODE_LOWER)
            behind_both = p;
    }
    if (is_in(p, end, UNICODE_LOWER))
        return skip_in(p, end, UNICODE_LOWER);
    return behind_both;
}

/* [upper]+[lower]* at p, or NULL. */
static const uint8_t *match_upper_word(const uint8_t *p, const uint8_t *end)
{
    if (!is_in(p, end, UNICODE_UPPER))
        return NULL;
    return skip_in(skip_in(p, end, UNICODE_UPPER), end, UNICODE_LOWER);
}

/* [^\r\n\p{L}\p{N}]?[upper]*[lower]+(?i:'s|...)?|[^\r\n\p{L}\p{N}]?[upper]+[lower]*(?i:'s|...)?
 * |\p{N}{1,max}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ matches everywhere.
 * upper: Lu Lt Lm Lo M, lower: Ll Lm Lo M. */
static inline const uint8_t *scan_cased(const uint8_t *p, const uint8_t *end, bool contractions,
                                        int max_numbers)
{
    const unsigned none = UNICODE_SPACE | UNICODE_LETTER | UNICODE_NUMBER;
    size_t size;
    unsigned classes = unicode_class_at(p, &size);
    const uint8_t *next = p + size, *word = NULL;
    bool optional = !(classes & (UNICODE_LETTER | UNICODE_NUMBER)) && !is_newline(*p);
    bool own = classes & (UNICODE_UPPER | UNICODE_LOWER); /* a letter or a mark */

    if (optional)
        word = match_lower_word(next, end);
    if (!word && own)
        word = match_lower_word(p, end);
    if (!word && optional)
        word = match_upper_word(next, end);
    if (!word && own)
        word = match_upper_word(p, end);
    if (word)
        return contractions ? skip_contraction(word, end) : word;
    if (classes & UNICODE_NUMBER)
        return skip_numbers(next, end, max_numbers);
    if (!(classes & UNICODE_SPACE) || (*p == ' ' && next < end && !is_in(next, end, none))) {
        p = skip_not_in(next, end, none);
        while (p < end && (is_newline(*p) || *p == '/'))
            p++;
        return p;
    }
    return match_space(p, end, true);
}

static const uint8_t *scan_o200k(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    *out_match = true;
    return scan_cased(p, end, true, 3);
}

/* Without contractions, and digits one by one. */
static const uint8_t *scan_tekken(const uint8_t *p, const uint8_t *end, bool *out_match)
{
    *out_match = true;
    return scan_cased(p, end, false, 1);
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern;
    scanner_function *scan;
} known_patterns[] = {
    /* Qwen2, Qwen2.5, Qwen3 */
    {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES,
     scan_qwen2},
    /* Llama 3, cl100k */
    {CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES,
     scan_llama3},
    /* GPT-2, RoBERTa, SmolLM2 */
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     scan_gpt2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", scan_gpt2},
    /* o200k, gpt-oss */
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
     "+" CONTRACTIONS "?"
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
     "*" CONTRACTIONS "?"
     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES,
     scan_o200k},
    /* Mistral's tekken */
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
     "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES,
     scan_tekken},
    /* DeepSeek V3: three in a row */
    {"\\p{N}{1,3}", scan_three_numbers},
    {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", scan_han_and_kana},
    {"[!\"#$%&'()*+,\\-./"
     ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES,
     scan_deepseek},
    /* parts that stand before others */
    {"\\p{N}", scan_number},
    {"\\p{N}+", scan_numbers},
};

/* Whether the pattern in a file is the known one; a file may hold the newlines of [\r\n] as
 * themselves. */
static bool is_pattern(const char *text, size_t size, const char *known)
{
    size_t i = 0;

    while (i < size && *known) {
        if (known[0] == '\\' &&
            ((text[i] == '\r' && known[1] == 'r') || (text[i] == '\n' && known[1] == 'n'))) {
            known++;
        } else if (text[i] != *known) {
            return false;
        }
        known++;
        i++;
    }
    return i == size && !*known;
}

scanner_function *scanner_find(const char *pattern, size_t size)
{
    for (size_t i = 0; i < sizeof(known_patterns) / sizeof(known_patterns[0]); i++) {
        if (is_pattern(pattern, size, known_patterns[i].pattern))
            return known_patterns[i].scan;
    }
    return NULL;
}
