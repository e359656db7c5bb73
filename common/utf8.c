/* utf8.c - see utf8.h. */
#include "common/utf8.h"

#include <string.h>

size_t utf8_valid_prefix(const uint8_t *text, size_t size)
{
    size_t i = 0;

    while (i < size) {
        if (text[i] < 0x80) { /* plain ASCII goes eight bytes at a time */
            uint64_t word = 0x80;
            if (size - i >= sizeof(word))
                memcpy(&word, text + i, sizeof(word));
            i += word & 0x8080808080808080u ? 1 : sizeof(word);
            continue;
        }
        if (text[i] > 0xE0 && text[i] < 0xED && size - i >= 3 && (text[i + 1] & 0xC0) == 0x80 &&
            (text[i + 2] & 0xC0) == 0x80) { /* most of what is neither ASCII nor Latin */
            i += 3;
            continue;
        }
        size_t sequence_size = utf8_sequence_size(text + i, size - i);
        if (sequence_size == 0)
            break;
        i += sequence_size;
    }
    return i;
}
