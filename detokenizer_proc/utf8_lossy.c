/* utf8_lossy.c - see utf8_lossy.h. */
#include "detokenizer_proc/utf8_lossy.h"

#include <string.h>

/* How many bytes the character that starts with lead has; 0 when none starts so. */
static int sequence_size(uint8_t lead)
{
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Whether byte may follow the size bytes of part. The second byte decides about overlong forms,
 * surrogates and numbers beyond U+10FFFF. */
static bool may_follow(const uint8_t *part, int size, uint8_t byte)
{
    uint8_t low = 0x80, high = 0xBF;

    if (size == 1) {
        switch (part[0]) {
        case 0xE0:
            low = 0xA0;
            break;
        case 0xED:
            high = 0x9F;
            break;
        case 0xF0:
            low = 0x90;
            break;
        case 0xF4:
            high = 0x8F;
            break;
        default:
            break;
        }
    }
    return byte >= low && byte <= high;
}

static char *put_replacement(char *out)
{
    memcpy(out, "\xEF\xBF\xBD", 3);
    return out + 3;
}

size_t utf8_lossy_feed(struct utf8_lossy *utf8, const uint8_t *bytes, size_t size, char *out)
{
    char *end = out;
    int part_size = utf8->size;

    for (size_t i = 0; i < size; i++) {
        uint8_t byte = bytes[i];
        if (part_size) {
            if (may_follow(utf8->part, part_size, byte)) {
                if (part_size + 1 == sequence_size(utf8->part[0])) {
                    memcpy(end, utf8->part, (size_t)part_size);
                    end += part_size;
                    *end++ = (char)byte;
                    part_size = 0;
                } else {
                    utf8->part[part_size++] = byte;
                }
                continue;
            }
            end = put_replacement(end);
            part_size = 0; /* and the byte is looked at afresh */
        }
        if (byte < 0x80) {
            *end++ = (char)byte;
        } else if (sequence_size(byte)) {
            utf8->part[0] = byte;
            part_size = 1;
        } else {
            end = put_replacement(end);
        }
    }
    utf8->size = (uint8_t)part_size;
    return (size_t)(end - out);
}

size_t utf8_lossy_flush(struct utf8_lossy *utf8, char *out)
{
    size_t size = utf8->size ? (size_t)(put_replacement(out) - out) : 0;

    *utf8 = (struct utf8_lossy){0};
    return size;
}
