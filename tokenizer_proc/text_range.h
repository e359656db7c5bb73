/* text_range.h - bytes [start, end) of a text. */
#ifndef TOKENIZER_PROC_TEXT_RANGE_H
#define TOKENIZER_PROC_TEXT_RANGE_H

#include <stddef.h>

struct text_range {
    size_t start, end;
};

#endif
