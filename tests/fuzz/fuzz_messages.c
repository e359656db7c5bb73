/*
 * fuzz_messages.c - frames from anybody. What decodes must encode, and the encoding must decode to
 * the same encoding; what is refused must say why in UTF-8 that an error message can carry. No
 * frame may cost more memory than a small multiple of its size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "proto/messages_codec.h"
#include "proto/wire_reader.h"

enum { FACTOR = 64, SLACK = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int holds)
{
    if (!holds)
        abort();
}

static void check_again(const struct message *message, struct arena *arena)
{
    struct frame_buffer first = {0}, second = {0};
    struct message again;
    struct message_fault fault;

    if (message_encode(message, &first).code == STATUS_OK) {
        expect(message_decode(first.data, first.size, arena, &again, &fault).code == STATUS_OK);
        expect(message_encode(&again, &second).code == STATUS_OK);
        expect(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    }
    frame_buffer_deinit(&first);
    frame_buffer_deinit(&second);
}

static void check_reply_to(const uint8_t *data, size_t size, struct arena *arena)
{
    struct reply_to reply_to, again;
    struct frame_buffer buffer = {0};

    if (reply_to_decode(data, size, arena, &reply_to).code == STATUS_OK) {
        expect(reply_to_encode(&reply_to, &buffer).code == STATUS_OK);
        expect(reply_to_decode(buffer.data, buffer.size, arena, &again).code == STATUS_OK);
    }
    frame_buffer_deinit(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct message message;
    struct message_fault fault;

    arena_init(&arena, 1, 0);
    struct status status = message_decode(data, size, &arena, &message, &fault);
    expect(arena.total_size <= FACTOR * size + SLACK);
    if (status.code == STATUS_OK) {
        check_again(&message, &arena);
    } else {
        expect(status.code == STATUS_FORMAT || status.code == STATUS_INVALID);
        expect(utf8_is_valid(status.msg, strlen(status.msg)));
        expect(fault.rid.size <= MAX_RID_BYTES && utf8_is_valid(fault.rid.data, fault.rid.size));
    }
    check_reply_to(data, size, &arena);
    arena_deinit(&arena);
    return 0;
}
