/*
 * codec_rig.h - frames decoded into one arena, for tests of the codec.
 */
#ifndef TESTS_UNIT_CODEC_RIG_H
#define TESTS_UNIT_CODEC_RIG_H

#include "proto/messages_codec.h"

static struct arena arena; /* zero: no bound, grows by what is asked */

static inline void setup(void)
{
    arena_reset(&arena);
}

static inline struct status decode(const void *data, size_t size, struct message *out,
                                   struct message_fault *out_fault)
{
    return message_decode(data, size, &arena, out, out_fault);
}

#endif
