/*
 * stream.h - the text of one request: tokens in, one by one; the bytes that may be sent now, out.
 *
 * All that a stream gives, joined, is the decode of all its ids; each part is valid UTF-8; nothing
 * is given twice. Held back are only the start of a character that is not complete and text that
 * may still become a stop string; stream_flush() gives that at the end. The cost of a token depends
 * on its own bytes, not on the length of the text.
 */
#ifndef DETOKENIZER_PROC_STREAM_H
#define DETOKENIZER_PROC_STREAM_H

#include "common/vocabulary.h"
#include "detokenizer_proc/stop_match.h"
#include "detokenizer_proc/utf8_lossy.h"

/* Nothing in it is owned: a stream is let go by forgetting it. */
struct stream {
    const struct stop_match *stop; /* borrowed; NULL: no stop strings */
    uint32_t stop_state;
    struct utf8_lossy utf8;
    bool skip_special; /* tokens flagged special give nothing */
};

void stream_init(struct stream *stream, const struct stop_match *stop, bool skip_special);

/* The most bytes that this token may give; and the end of the text. */
static inline size_t stream_held(const struct stream *stream)
{
    return stream->stop ? stop_match_held(stream->stop, stream->stop_state) : 0;
}

static inline size_t stream_room(const struct stream *stream, const struct vocabulary *vocabulary,
                                 int32_t token)
{
    const uint8_t *bytes;

    return utf8_lossy_room(vocabulary_bytes(vocabulary, token, &bytes)) + stream_held(stream);
}

static inline size_t stream_flush_room(const struct stream *stream)
{
    return UTF8_LOSSY_FLUSH_ROOM + stream_held(stream);
}

/*
 * Feeds a token and writes what may be sent now to out [stream_room()]; returns its size. A token
 * that the vocabulary does not have gives nothing. When the token completes a stop string,
 * *out_matched is set, what is returned ends before the match, and the stream is at its end:
 * neither fed nor flushed again.
 */
size_t stream_feed(struct stream *stream, const struct vocabulary *vocabulary, int32_t token,
                   char *out, bool *out_matched);

/* The end of the text: what was held back, to out [stream_flush_room()]; returns its size. An
 * incomplete character becomes U+FFFD, which may complete a stop string, too. */
size_t stream_flush(struct stream *stream, char *out, bool *out_matched);

/* The whole text of num_ids ids into *out (malloc'ed, a NUL behind it); the caller frees. */
MUST_CHECK struct status stream_decode(const struct vocabulary *vocabulary, const int32_t *ids,
                                       size_t num_ids, bool skip_special, char **out,
                                       size_t *out_size);

#endif
