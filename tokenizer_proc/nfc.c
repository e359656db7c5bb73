/* nfc.c - see nfc.h. */
#include "tokenizer_proc/nfc.h"

#include <string.h>

#include "common/utf8.h"
#include "tokenizer_proc/unicode.h"

enum {
    CODE_MASK = 0xFFFFFF,
    CCC_SHIFT = 24,
    INSERTION_MAX = 24,   /* marks in a row that are sorted by insertion */
    DECOMPOSITION_MAX = 8 /* characters that one can become, with room to spare: Unicode says 4 */
};

size_t nfc_find_unstable(const uint8_t *text, size_t size)
{
    size_t i = 0, character;

    while (i < size) {
        uint64_t word;
        if (text[i] < 0x80) {
            if (size - i >= sizeof(word)) {
                memcpy(&word, text + i, sizeof(word));
                if (!(word & 0x8080808080808080u)) {
                    i += sizeof(word);
                    continue;
                }
            }
            i++;
            continue;
        }
        if (unicode_class(unicode_decode(text + i, &character)) & UNICODE_NFC_UNSTABLE)
            break;
        i += character;
    }
    return i;
}

static struct status add_code(struct nfc *nfc, uint32_t code)
{
    struct status status = buffer_reserve(&nfc->codes, (nfc->num_codes + 1) * sizeof(uint32_t));

    if (status.code)
        return status;
    uint32_t *codes = nfc->codes.data;
    codes[nfc->num_codes++] = code | (uint32_t)unicode_ccc(code) << CCC_SHIFT;
    return status;
}

/* Appends the full canonical decomposition of code. */
static struct status decompose(struct nfc *nfc, uint32_t code)
{
    uint32_t stack[DECOMPOSITION_MAX];
    int depth = 0;
    uint32_t hangul = code - 0xAC00;
    struct status status = status_ok();

    if (hangul < 11172) {
        status = add_code(nfc, 0x1100 + hangul / 588);
        if (!status.code)
            status = add_code(nfc, 0x1161 + hangul % 588 / 28);
        if (!status.code && hangul % 28)
            status = add_code(nfc, 0x11A7 + hangul % 28);
        return status;
    }
    stack[depth++] = code;
    while (depth > 0 && !status.code) {
        uint32_t top = stack[--depth];
        const struct unicode_pair *pair = unicode_decomposition(top);
        if (!pair) {
            status = add_code(nfc, top);
            continue;
        }
        if (pair->second)
            stack[depth++] = pair->second;
        stack[depth++] = pair->first;
    }
    return status;
}

/* Stable sort of marks by combining class. */
static struct status sort_marks(struct nfc *nfc, size_t start, size_t end)
{
    uint32_t *codes = nfc->codes.data;
    size_t counts[257] = {0};

    if (end - start <= INSERTION_MAX) {
        for (size_t i = start + 1; i < end; i++) {
            uint32_t code = codes[i];
            size_t j = i;
            for (; j > start && codes[j - 1] >> CCC_SHIFT > code >> CCC_SHIFT; j--)
                codes[j] = codes[j - 1];
            codes[j] = code;
        }
        return status_ok();
    }
    struct status status = buffer_reserve(&nfc->sorted, (end - start) * sizeof(uint32_t));
    if (status.code)
        return status;
    uint32_t *sorted = nfc->sorted.data;
    for (size_t i = start; i < end; i++)
        counts[(codes[i] >> CCC_SHIFT) + 1]++;
    for (size_t i = 1; i < 257; i++)
        counts[i] += counts[i - 1];
    for (size_t i = start; i < end; i++)
        sorted[counts[codes[i] >> CCC_SHIFT]++] = codes[i];
    memcpy(codes + start, sorted, (end - start) * sizeof(uint32_t));
    return status;
}

static struct status order_marks(struct nfc *nfc)
{
    const uint32_t *codes = nfc->codes.data;
    struct status status = status_ok();

    for (size_t i = 0; i < nfc->num_codes && !status.code; i++) {
        size_t start = i;
        while (i < nfc->num_codes && codes[i] >> CCC_SHIFT)
            i++;
        if (i - start > 1)
            status = sort_marks(nfc, start, i);
    }
    return status;
}

/* Joins what can be joined, in place. A mark is blocked from its starter by one of its own or a
 * higher class in between, and everything is blocked by a starter in between. */
static void compose(struct nfc *nfc)
{
    uint32_t *codes = nfc->codes.data;
    size_t num_codes = 0, starter = SIZE_MAX;
    uint32_t last_ccc = 0; /* of what was kept behind the starter; 0 right behind it */

    for (size_t i = 0; i < nfc->num_codes; i++) {
        uint32_t ccc = codes[i] >> CCC_SHIFT;
        bool adjacent = starter != SIZE_MAX && num_codes == starter + 1;
        if (starter != SIZE_MAX && (adjacent || last_ccc < ccc)) {
            uint32_t joined = unicode_compose(codes[starter] & CODE_MASK, codes[i] & CODE_MASK);
            if (joined) {
                codes[starter] = joined;
                continue;
            }
        }
        if (ccc == 0)
            starter = num_codes;
        last_ccc = ccc;
        codes[num_codes++] = codes[i];
    }
    nfc->num_codes = num_codes;
}

static struct status append(struct nfc *nfc, const uint8_t *text, size_t size)
{
    struct status status = buffer_reserve(&nfc->text, nfc->size + size);

    if (status.code || size == 0)
        return status;
    memcpy((uint8_t *)nfc->text.data + nfc->size, text, size);
    nfc->size += size;
    return status;
}

static struct status normalize_segment(struct nfc *nfc, const uint8_t *text, size_t start,
                                       size_t end)
{
    struct status status = status_ok();
    size_t out_start = nfc->size;

    nfc->num_codes = 0;
    for (size_t i = start, size = 0; i < end && !status.code; i += size)
        status = decompose(nfc, unicode_decode(text + i, &size));
    if (!status.code)
        status = order_marks(nfc);
    if (status.code)
        return status;
    compose(nfc);
    status = buffer_reserve(&nfc->text, nfc->size + nfc->num_codes * 4);
    if (!status.code)
        status =
            buffer_reserve(&nfc->segments, (nfc->num_segments + 1) * sizeof(struct nfc_segment));
    if (status.code)
        return status;
    const uint32_t *codes = nfc->codes.data;
    for (size_t i = 0; i < nfc->num_codes; i++)
        nfc->size += utf8_encode((char *)nfc->text.data + nfc->size, codes[i] & CODE_MASK);
    struct nfc_segment *segments = nfc->segments.data;
    segments[nfc->num_segments++] = (struct nfc_segment){start, end, out_start, nfc->size};
    return status;
}

struct status nfc_normalize(struct nfc *nfc, const uint8_t *text, size_t size, size_t from)
{
    struct status status = status_ok();
    size_t done = 0, at = from, character = 0;

    nfc->size = nfc->num_segments = 0;
    while (at < size && !status.code) {
        size_t start = at, end = at;
        if (start > done) { /* back to the stable character before */
            do
                start--;
            while (start > done && (text[start] & 0xC0) == 0x80);
        }
        while (end < size && unicode_class_at(text + end, &character) & UNICODE_NFC_UNSTABLE)
            end += character;
        status = append(nfc, text + done, start - done);
        if (!status.code)
            status = normalize_segment(nfc, text, start, end);
        done = end;
        at = end + nfc_find_unstable(text + end, size - end);
    }
    if (!status.code)
        status = append(nfc, text + done, size - done);
    return status;
}

/* The segment that holds output byte at, or NULL; *out_shift: input minus output position there. */
static const struct nfc_segment *find_segment(const struct nfc *nfc, size_t at, size_t *out_shift)
{
    const struct nfc_segment *segments = nfc->segments.data;
    size_t low = 0, high = nfc->num_segments;

    while (low < high) { /* the first that ends behind at */
        size_t middle = (low + high) / 2;
        if (segments[middle].out_end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    *out_shift = low > 0 ? segments[low - 1].in_end - segments[low - 1].out_end : 0;
    return low < nfc->num_segments && segments[low].out_start <= at ? &segments[low] : NULL;
}

void nfc_source(const struct nfc *nfc, size_t start, size_t end, size_t *out_start, size_t *out_end)
{
    size_t shift;
    const struct nfc_segment *segment = find_segment(nfc, start, &shift);

    *out_start = segment ? segment->in_start : start + shift;
    segment = find_segment(nfc, end - 1, &shift);
    *out_end = segment ? segment->in_end : end + shift;
}

void nfc_deinit(struct nfc *nfc)
{
    buffer_deinit(&nfc->text);
    buffer_deinit(&nfc->segments);
    buffer_deinit(&nfc->codes);
    buffer_deinit(&nfc->sorted);
    *nfc = (struct nfc){0};
}
