/*
 * encoder.c - see tokenizer.h.
 *
 *   text ─ added tokens of the raw text ─ NFC ─ added tokens of normalised text ─ pieces ─ BPE ─
 * ids
 *
 * Each step hands ranges to the next one; only NFC copies, and only where it changes something.
 */
#include <string.h>

#include "tokenizer_proc/nfc.h"
#include "tokenizer_proc/piece_cache.h"
#include "tokenizer_proc/tokenizer.h"
#include "tokenizer_proc/tokenizer_parts.h"
#include "tokenizer_proc/unicode.h"

enum { SCRATCH_KEPT = 1 << 20 }; /* bytes of each buffer that stay between texts */

struct encoder {
    const struct tokenizer *tokenizer; /* borrowed */
    struct piece_cache cache;
    struct bpe_scratch bpe;
    struct nfc nfc;
    struct buffer prefixed;
};

struct status encoder_create(const struct tokenizer *tokenizer, struct encoder **out)
{
    struct encoder *encoder = calloc(1, sizeof(*encoder));

    if (!encoder)
        return status_error(STATUS_NO_MEMORY, "no memory for an encoder");
    encoder->tokenizer = tokenizer;
    struct status status = piece_cache_init(&encoder->cache);
    if (status.code) {
        encoder_destroy(encoder);
        return status;
    }
    *out = encoder;
    return status;
}

void encoder_destroy(struct encoder *encoder)
{
    if (!encoder)
        return;
    piece_cache_deinit(&encoder->cache);
    bpe_scratch_deinit(&encoder->bpe);
    nfc_deinit(&encoder->nfc);
    buffer_deinit(&encoder->prefixed);
    free(encoder);
}

static struct status add_ids(struct token_list *out, const int32_t *ids, size_t n)
{
    struct status status = token_list_reserve(out, n);

    if (status.code || n == 0)
        return status;
    memcpy(out->ids + out->num_ids, ids, n * sizeof(*ids));
    out->num_ids += n;
    return status;
}

/* BPE through the cache. kind: 0 for pieces, 1 for parts of them, where the two may differ. */
static inline struct status encode_cached(struct encoder *encoder, const uint8_t *piece,
                                          size_t size, size_t left, unsigned kind,
                                          struct token_list *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct status status;
    uint64_t key[3];
    int32_t id = -1;

    piece_key(piece, size, left, kind, key);
    struct piece_entry *entry = piece_cache_place(&encoder->cache, key);
    if (piece_entry_is(entry, key))
        return add_ids(out, entry->ids, entry->num_ids);
    size_t num_before = out->num_ids;
    if (kind == 0 && tokenizer->ignore_merges)
        id = vocab_index_find(&tokenizer->vocab_index, piece, size);
    if (id >= 0)
        status = add_ids(out, &id, 1);
    else
        status = bpe_encode(&tokenizer->bpe, &encoder->bpe, piece, size, out);
    if (status.code || out->num_ids - num_before > PIECE_MAX_IDS)
        return status;
    memcpy(entry->key, key, sizeof(key));
    entry->num_ids = (uint32_t)(out->num_ids - num_before);
    memcpy(entry->ids, out->ids + num_before, entry->num_ids * sizeof(*entry->ids));
    return status;
}

/* A piece that is too long for the cache, or of a script without spaces: in parts that BPE does not
 * join. */
static struct status encode_parts(struct encoder *encoder, const uint8_t *piece, size_t size,
                                  size_t left, struct token_list *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct status status = status_ok();

    if (tokenizer->ignore_merges) {
        int32_t id = vocab_index_find(&tokenizer->vocab_index, piece, size);
        if (id >= 0)
            return add_ids(out, &id, 1);
    }
    for (size_t at = 0, part = 0; at < size && !status.code; at += part) {
        part = tokenizer->joints ? joints_cut(tokenizer->joints, piece + at, size - at) : size;
        if (part <= PIECE_MAX_SIZE)
            status =
                encode_cached(encoder, piece + at, part, left - at, tokenizer->ignore_merges, out);
        else
            status = bpe_encode(&tokenizer->bpe, &encoder->bpe, piece + at, part, out);
    }
    return status;
}

/* left: bytes that may be read from the piece on, at least size. */
static inline struct status encode_piece(struct encoder *encoder, const uint8_t *piece, size_t size,
                                         size_t left, struct token_list *out)
{
    if (size > PIECE_MAX_SIZE || (size > 4 && (piece[0] >= 0xE0 || piece[1] >= 0xE0)))
        return encode_parts(encoder, piece, size, left, out);
    return encode_cached(encoder, piece, size, left, 0, out);
}

/* Text without added tokens, normalised. */
static struct status encode_words(struct encoder *encoder, const uint8_t *text, size_t size,
                                  struct token_list *out)
{
    struct splitter splitter;
    const uint8_t *piece = NULL, *end = text + size;
    size_t piece_size = 0;
    struct status status =
        splitter_init(&splitter, &encoder->tokenizer->pretokenizer, &encoder->prefixed, text, size);

    while (!status.code) {
        status = splitter_next(&splitter, &piece, &piece_size);
        if (status.code || !piece)
            break;
        bool in_text = piece >= text && piece < end; /* else it lies in the prefixed copy */
        size_t left = in_text ? (size_t)(end - piece) : piece_size;
        status = encode_piece(encoder, piece, piece_size, left, out);
    }
    return status;
}

/* Text without added tokens of the raw kind, at scope->offset of the whole. */
static struct status encode_part(struct encoder *encoder, struct added_scope *scope,
                                 const uint8_t *text, size_t size, struct token_list *out)
{
    const struct added_tokens *added = &encoder->tokenizer->added;
    struct added_cutter cutter;
    struct added_piece piece;
    struct status status = status_ok();

    scope->nfc = NULL;
    if (encoder->tokenizer->nfc) {
        size_t from = nfc_find_unstable(text, size);
        if (from < size) {
            status = nfc_normalize(&encoder->nfc, text, size, from);
            if (status.code)
                return status;
            text = encoder->nfc.text.data;
            size = encoder->nfc.size;
            scope->nfc = &encoder->nfc;
        }
    }
    if (added->normalized.num_nodes == 0)
        return encode_words(encoder, text, size, out);
    added_cutter_init(&cutter, added, &added->normalized, scope, text, size);
    while (!status.code && added_cutter_next(&cutter, &piece)) {
        if (piece.token >= 0)
            status = add_ids(out, &added->tokens[piece.token].id, 1);
        else
            status = encode_words(encoder, text + piece.start, piece.end - piece.start, out);
    }
    return status;
}

static struct status encode_text(struct encoder *encoder, const struct encode_args *args,
                                 struct token_list *out)
{
    const uint8_t *text = (const uint8_t *)args->text;
    const struct added_tokens *added = &encoder->tokenizer->added;
    struct added_scope scope = {
        .parse_special = args->parse_special,
        .data_ranges = args->data_ranges,
        .num_data_ranges = args->num_data_ranges,
    };
    struct added_scope part_scope = scope;
    struct added_cutter cutter;
    struct added_piece piece;
    struct status status = status_ok();

    added_cutter_init(&cutter, added, &added->raw, &scope, text, args->size);
    while (!status.code && added_cutter_next(&cutter, &piece)) {
        if (piece.token >= 0) {
            status = add_ids(out, &added->tokens[piece.token].id, 1);
        } else {
            part_scope.offset = piece.start;
            status =
                encode_part(encoder, &part_scope, text + piece.start, piece.end - piece.start, out);
        }
    }
    return status;
}

struct status encoder_encode(struct encoder *encoder, const struct encode_args *args,
                             struct token_list *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t num_before = out->num_ids;
    size_t valid = unicode_valid_prefix((const uint8_t *)args->text, args->size);
    struct status status = status_ok();

    if (valid < args->size)
        return status_error(STATUS_INVALID, "text is not UTF-8 at byte %zu", valid);
    if (args->add_special_tokens)
        status = add_ids(out, tokenizer->before, (size_t)tokenizer->num_before);
    if (!status.code)
        status = encode_text(encoder, args, out);
    if (!status.code && args->add_special_tokens)
        status = add_ids(out, tokenizer->after, (size_t)tokenizer->num_after);
    if (status.code)
        out->num_ids = num_before;
    buffer_trim(&encoder->bpe.symbols, SCRATCH_KEPT);
    buffer_trim(&encoder->bpe.queue, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.text, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.segments, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.codes, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.sorted, SCRATCH_KEPT);
    buffer_trim(&encoder->prefixed, SCRATCH_KEPT);
    return status;
}
