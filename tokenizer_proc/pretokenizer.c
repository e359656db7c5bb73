/* pretokenizer.c - see pretokenizer.h. */
#include "tokenizer_proc/pretokenizer.h"

#include <string.h>

static const uint8_t *scan_literal(const struct split_stage *stage, const uint8_t *p,
                                   const uint8_t *end, bool *out_match)
{
    const uint8_t *found = memmem(p, (size_t)(end - p), stage->literal, stage->literal_size);

    *out_match = found == p;
    if (*out_match)
        return p + stage->literal_size;
    return found ? found : end;
}

static inline const uint8_t *scan(const struct split_stage *stage, const uint8_t *p,
                                  const uint8_t *end, bool *out_match)
{
    const uint8_t *next =
        stage->scan ? stage->scan(p, end, out_match) : scan_literal(stage, p, end, out_match);

    *out_match ^= stage->invert;
    return next;
}

/* The end of the piece at p that the stage keeps together; *out_removed: it is dropped. */
static const uint8_t *cut(const struct split_stage *stage, const uint8_t *p, const uint8_t *end,
                          bool *out_removed)
{
    bool match = false, next_match = false;
    const uint8_t *next = scan(stage, p, end, &match), *behind;

    *out_removed = false;
    switch (stage->behavior) {
    case SPLIT_ISOLATED:
        break;
    case SPLIT_REMOVED:
        *out_removed = match;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS: /* a match joins what is not one before it */
    case SPLIT_MERGED_WITH_NEXT:     /* a match joins what is not one behind it */
        if (next < end && match == (stage->behavior == SPLIT_MERGED_WITH_NEXT)) {
            behind = scan(stage, next, end, &next_match);
            if (next_match != match)
                next = behind;
        }
        break;
    case SPLIT_CONTIGUOUS:
        while (next < end) {
            behind = scan(stage, next, end, &next_match);
            if (next_match != match)
                break;
            next = behind;
        }
        break;
    }
    return next;
}

static struct status enter(struct splitter *splitter, int level, const uint8_t *text, size_t size)
{
    splitter->level = level;
    /* Only one stage has the flag, so text never lies in the buffer already. */
    if (splitter->pretokenizer->stages[level].add_prefix_space && size > 0 && text[0] != ' ') {
        struct status status = buffer_reserve(splitter->prefixed, size + 1);
        if (status.code)
            return status;
        uint8_t *copy = splitter->prefixed->data;
        copy[0] = ' ';
        memcpy(copy + 1, text, size);
        text = copy;
        size++;
    }
    splitter->levels[level] = (struct split_level){.at = text, .end = text + size};
    return status_ok();
}

struct status splitter_init(struct splitter *splitter, const struct pretokenizer *pretokenizer,
                            struct buffer *prefixed, const uint8_t *text, size_t size)
{
    splitter->pretokenizer = pretokenizer;
    splitter->prefixed = prefixed;
    return enter(splitter, 0, text, size);
}

struct status splitter_next(struct splitter *splitter, const uint8_t **out, size_t *out_size)
{
    const struct pretokenizer *pretokenizer = splitter->pretokenizer;
    bool removed = false;

    for (;;) {
        struct split_level *level = &splitter->levels[splitter->level];
        const uint8_t *start = level->at;
        if (start == level->end) {
            if (splitter->level == 0) {
                *out = NULL;
                return status_ok();
            }
            splitter->level--;
            continue;
        }
        level->at = cut(&pretokenizer->stages[splitter->level], start, level->end, &removed);
        if (removed)
            continue;
        size_t size = (size_t)(level->at - start);
        if (splitter->level == pretokenizer->num_stages - 1) {
            *out = start;
            *out_size = size;
            return status_ok();
        }
        struct status status = enter(splitter, splitter->level + 1, start, size);
        if (status.code)
            return status;
    }
}
