/*
 * words.c - see words.h.
 *
 * This is where the time goes: each piece of four bytes or so passes here. So the inner functions
 * return a bool and leave the status, which is large, in the struct.
 */
#include "tokenizer_proc/words.h"

#include <string.h>

struct status words_init(struct words *words, const struct tokenizer *tokenizer)
{
    *words = (struct words){.tokenizer = tokenizer};
    return piece_cache_init(&words->cache);
}

void words_deinit(struct words *words)
{
    piece_cache_deinit(&words->cache);
    bpe_scratch_deinit(&words->bpe);
    buffer_deinit(&words->prefixed);
}

void words_trim(struct words *words, size_t max_size)
{
    buffer_trim(&words->bpe.symbols, max_size);
    buffer_trim(&words->bpe.queue, max_size);
    buffer_trim(&words->prefixed, max_size);
}

/* Room for the ids of one cache entry. */
static inline bool reserve(struct words *words, struct token_list *out)
{
    if (out->capacity - out->num_ids >= PIECE_MAX_IDS)
        return true;
    words->status = token_list_reserve(out, PIECE_MAX_IDS);
    return words->status.code == STATUS_OK;
}

/* With ignore_merges, a piece that is a token as a whole is that token: its id, or -1. */
static int32_t find_whole(const struct words *words, const uint8_t *piece, size_t size)
{
    if (!words->tokenizer->ignore_merges)
        return -1;
    return vocab_index_find(&words->tokenizer->vocab_index, piece, size);
}

static bool encode_bpe(struct words *words, const uint8_t *piece, size_t size,
                       struct token_list *out)
{
    words->status = bpe_encode(&words->tokenizer->bpe, &words->bpe, piece, size, out);
    return words->status.code == STATUS_OK;
}

/* What is encoded: a piece, or a part of one, which is never looked up as a whole. */
enum kind { PIECE, PART };

/* What the cache does not know; place: where it belongs. */
static bool encode_new(struct words *words, const uint8_t *piece, size_t size, enum kind kind,
                       const uint64_t key[3], struct piece_entry *place, struct token_list *out)
{
    size_t num_before = out->num_ids;
    int32_t whole = kind == PIECE ? find_whole(words, piece, size) : -1;

    if (whole >= 0) {
        if (!reserve(words, out))
            return false;
        out->ids[out->num_ids++] = whole;
    } else if (!encode_bpe(words, piece, size, out)) {
        return false;
    }
    size_t num_ids = out->num_ids - num_before;
    if (num_ids <= PIECE_MAX_IDS) {
        struct piece_entry *entry = piece_cache_renew(place);
        memcpy(entry->key, key, sizeof(entry->key));
        entry->num_ids = (uint32_t)num_ids;
        memcpy(entry->ids, out->ids + num_before, num_ids * sizeof(*entry->ids));
    }
    return true;
}

/* At most PIECE_MAX_SIZE bytes; left: how many may be read from the piece on. */
static inline bool encode_cached(struct words *words, const uint8_t *piece, size_t size,
                                 size_t left, enum kind kind, struct token_list *out)
{
    uint64_t key[3];

    piece_key(piece, size, left, kind == PART && words->tokenizer->ignore_merges, key);
    struct piece_entry *place = piece_cache_place(&words->cache, key), *entry = place;
    if (!piece_entry_is(entry, key) && !piece_entry_is(++entry, key))
        return encode_new(words, piece, size, kind, key, place, out);
    if (!reserve(words, out))
        return false;
    memcpy(out->ids + out->num_ids, entry->ids, sizeof(entry->ids)); /* all: a fixed size is fast */
    out->num_ids += entry->num_ids;
    return true;
}

/* A piece that is too long for the cache, or of a script without spaces: in parts that BPE does not
 * join. */
static bool encode_parts(struct words *words, const uint8_t *piece, size_t size, size_t left,
                         struct token_list *out)
{
    const struct joints *joints = words->tokenizer->joints;
    int32_t whole = find_whole(words, piece, size);
    size_t part;

    if (whole >= 0) {
        if (!reserve(words, out))
            return false;
        out->ids[out->num_ids++] = whole;
        return true;
    }
    for (size_t at = 0; at < size; at += part) {
        part = joints ? joints_cut(joints, piece + at, size - at) : size;
        if (part > PIECE_MAX_SIZE ? !encode_bpe(words, piece + at, part, out)
                                  : !encode_cached(words, piece + at, part, left - at, PART, out))
            return false;
    }
    return true;
}

static inline bool encode_piece(struct words *words, const uint8_t *piece, size_t size, size_t left,
                                struct token_list *out)
{
    if (size > PIECE_MAX_SIZE || (size > 4 && (piece[0] >= 0xE0 || piece[1] >= 0xE0)))
        return encode_parts(words, piece, size, left, out);
    return encode_cached(words, piece, size, left, PIECE, out);
}

/* One stage that keeps each segment: what nearly all models have. */
static bool encode_segments(struct words *words, scanner_function *scan, const uint8_t *text,
                            size_t size, struct token_list *out)
{
    const uint8_t *end = text + size, *next;
    bool match = false;

    for (const uint8_t *at = text; at < end; at = next) {
        next = scan(at, end, &match);
        if (!encode_piece(words, at, (size_t)(next - at), (size_t)(end - at), out))
            return false;
    }
    return true;
}

struct status words_encode(struct words *words, const uint8_t *text, size_t size,
                           struct token_list *out)
{
    const struct pretokenizer *pretokenizer = &words->tokenizer->pretokenizer;
    const struct split_stage *stage = &pretokenizer->stages[0];
    struct splitter splitter;
    const uint8_t *piece = NULL;
    size_t piece_size = 0;

    if (pretokenizer->num_stages == 1 && stage->scan && stage->behavior == SPLIT_ISOLATED &&
        !stage->add_prefix_space)
        return encode_segments(words, stage->scan, text, size, out) ? status_ok() : words->status;
    struct status status = splitter_init(&splitter, pretokenizer, &words->prefixed, text, size);
    while (!status.code) {
        status = splitter_next(&splitter, &piece, &piece_size);
        if (status.code || !piece)
            break;
        size_t left = (size_t)(splitter.levels[splitter.level].end - piece);
        if (!encode_piece(words, piece, piece_size, left, out))
            return words->status;
    }
    return status;
}
