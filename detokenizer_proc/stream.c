/*
 * stream.c - see stream.h. Two stages: bytes become UTF-8, then stop strings are looked for in what
 * a client would see.
 */
#include "detokenizer_proc/stream.h"

#include <stdlib.h>

void stream_init(struct stream *stream, const struct stop_match *stop, bool skip_special)
{
    *stream = (struct stream){.stop = stop, .skip_special = skip_special};
}

size_t stream_feed(struct stream *stream, const struct vocabulary *vocabulary, int32_t token,
                   char *out, bool *out_matched)
{
    const uint8_t *bytes;
    size_t size = vocabulary_bytes(vocabulary, token, &bytes);

    if (size == 0 || (stream->skip_special && vocabulary_is_special(vocabulary, token)))
        return 0;
    size = utf8_lossy_feed(&stream->utf8, bytes, size, out);
    if (!stream->stop)
        return size;
    return stop_match_feed(stream->stop, &stream->stop_state, out, size, out_matched);
}

size_t stream_flush(struct stream *stream, char *out, bool *out_matched)
{
    bool matched = false;
    size_t size = utf8_lossy_flush(&stream->utf8, out);

    if (!stream->stop)
        return size;
    size = stop_match_feed(stream->stop, &stream->stop_state, out, size, &matched);
    if (matched)
        *out_matched = true;
    else
        size += stop_match_flush(stream->stop, &stream->stop_state, out + size);
    return size;
}

struct status stream_decode(const struct vocabulary *vocabulary, const int32_t *ids, size_t num_ids,
                            bool skip_special, char **out, size_t *out_size)
{
    struct stream stream;
    size_t room = UTF8_LOSSY_FLUSH_ROOM + 1, size = 0;
    const uint8_t *bytes;
    bool matched = false;

    stream_init(&stream, NULL, skip_special);
    for (size_t i = 0; i < num_ids; i++)
        room += 3 * vocabulary_bytes(vocabulary, ids[i], &bytes);
    char *text = malloc(room);
    if (!text)
        return status_error(STATUS_NO_MEMORY, "no memory for %zu bytes of text", room);
    for (size_t i = 0; i < num_ids; i++)
        size += stream_feed(&stream, vocabulary, ids[i], text + size, &matched);
    size += stream_flush(&stream, text + size, &matched);
    text[size] = '\0';
    *out = text;
    *out_size = size;
    return status_ok();
}
