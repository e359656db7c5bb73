/*
 * encoder.c - see tokenizer.h.
 *
 *   text ─ added tokens of the raw text ─ NFC ─ added tokens of normalised text ─ pieces ─ BPE ─
 * ids
 *
 * Each step hands ranges to the next one; only NFC copies, and only where it changes something.
 */
#include <string.h>

#include "common/utf8.h"
#include "tokenizer_proc/nfc.h"
#include "tokenizer_proc/tokenizer.h"
#include "tokenizer_proc/tokenizer_parts.h"
#include "tokenizer_proc/unicode.h"
#include "tokenizer_proc/words.h"

enum { SCRATCH_KEPT = 1 << 20 }; /* bytes of each buffer that stay between texts */

struct encoder {
    const struct tokenizer *tokenizer; /* borrowed */
    struct words words;
    struct nfc nfc;
};

struct status encoder_create(const struct tokenizer *tokenizer, struct encoder **out)
{
    struct encoder *encoder = calloc(1, sizeof(*encoder));

    if (!encoder)
        return status_error(STATUS_NO_MEMORY, "no memory for an encoder");
    encoder->tokenizer = tokenizer;
    struct status status = words_init(&encoder->words, tokenizer);
    if (status.code) {
        encoder_destroy(&encoder);
        return status;
    }
    *out = encoder;
    return status;
}

void encoder_destroy(struct encoder **encoder_ptr)
{
    struct encoder *encoder = *encoder_ptr;

    if (!encoder)
        return;
    words_deinit(&encoder->words);
    nfc_deinit(&encoder->nfc);
    free(encoder);
    *encoder_ptr = NULL;
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
        return words_encode(&encoder->words, text, size, out);
    added_cutter_init(&cutter, added, &added->normalized, scope, text, size);
    while (!status.code && added_cutter_next(&cutter, &piece)) {
        if (piece.token >= 0)
            status = add_ids(out, &added->tokens[piece.token].id, 1);
        else
            status =
                words_encode(&encoder->words, text + piece.start, piece.end - piece.start, out);
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
    size_t valid = utf8_valid_prefix((const uint8_t *)args->text, args->size);
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
    words_trim(&encoder->words, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.text, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.segments, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.codes, SCRATCH_KEPT);
    buffer_trim(&encoder->nfc.sorted, SCRATCH_KEPT);
    return status;
}
