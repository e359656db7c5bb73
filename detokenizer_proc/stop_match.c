/*
 * stop_match.c - see stop_match.h.
 *
 * Built level by level from the sorted stop strings: a node is the range of strings that share its
 * text, its children are the parts of that range with the same next byte. For "ab", "abc", "b":
 *
 *        0 ""            range [0, 3)
 *        ├─ 1 "a"        range [0, 2)   fail 0
 *        │  └─ 3 "ab"    range [0, 2)   fail 2, match 2
 *        │     └─ 4 "abc"               fail 0, match 3
 *        └─ 2 "b"        range [2, 3)   fail 0, match 1
 */
#include "detokenizer_proc/stop_match.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

/* What is needed only to build. */
struct build {
    struct bytes *strings;  /* owned: sorted */
    uint32_t *first, *last; /* owned, [num_nodes]: the range of strings of each node */
};

static int compare(const void *a, const void *b)
{
    const struct bytes *x = a, *y = b;
    int order = memcmp(x->data, y->data, x->size < y->size ? x->size : y->size);

    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static uint32_t find_child(const struct stop_match *match, uint32_t node, uint8_t byte)
{
    const struct stop_node *n = &match->nodes[node];

    if (node == 0)
        return match->roots[byte];
    if (n->num_children == 0)
        return 0;
    if (n->num_children == 1)
        return match->bytes[n->first_child] == byte ? n->first_child : 0;
    const uint8_t *children = match->bytes + n->first_child;
    const uint8_t *found = memchr(children, byte, n->num_children);
    return found ? n->first_child + (uint32_t)(found - children) : 0;
}

static inline uint32_t step(const struct stop_match *match, uint32_t state, uint8_t byte)
{
    uint32_t next = find_child(match, state, byte);

    while (!next && state) {
        state = match->nodes[state].fail;
        next = find_child(match, state, byte);
    }
    return next;
}

/* Appends the children of node, whose range is known; returns with each child's own range. */
static void add_children(struct stop_match *match, struct build *build, uint32_t node)
{
    struct stop_node *n = &match->nodes[node];
    uint32_t depth = n->depth;
    uint32_t i = build->first[node];

    n->first_child = match->num_nodes;
    while (i < build->last[node] && build->strings[i].size == depth) /* ends here: no child */
        i++;
    while (i < build->last[node]) {
        uint8_t byte = build->strings[i].data[depth];
        uint32_t child = match->num_nodes++;
        build->first[child] = i;
        while (i < build->last[node] && build->strings[i].data[depth] == byte)
            i++;
        build->last[child] = i;
        const struct bytes *string = &build->strings[build->first[child]];
        match->bytes[child] = byte;
        match->nodes[child] = (struct stop_node){
            .text = (uint32_t)(string->data - match->texts),
            .depth = depth + 1,
            .fail = node ? step(match, n->fail, byte) : 0,
        };
        if (string->size == depth + 1)
            match->nodes[child].match = depth + 1;
        else
            match->nodes[child].match = match->nodes[match->nodes[child].fail].match;
        if (node == 0)
            match->roots[byte] = child;
        n->num_children++;
    }
}

/* Copies the strings behind each other and sorts the copies. */
static void copy_strings(struct stop_match *match, struct build *build, const struct bytes *strings,
                         size_t num_strings)
{
    uint8_t *at = match->texts;

    for (size_t i = 0; i < num_strings; i++) {
        memcpy(at, strings[i].data, strings[i].size);
        build->strings[i] = (struct bytes){at, strings[i].size};
        at += strings[i].size;
    }
    qsort(build->strings, num_strings, sizeof(*build->strings), compare);
}

struct status stop_match_init(struct stop_match *match, const struct bytes *strings,
                              size_t num_strings)
{
    struct status status = status_ok();
    struct stop_match new = {0};
    struct build build = {0};
    size_t total = 0;

    *match = (struct stop_match){0};
    for (size_t i = 0; i < num_strings; i++) {
        if (strings[i].size == 0)
            return status_error(STATUS_INVALID, "stop string %zu is empty", i);
        if (!utf8_is_valid(strings[i].data, strings[i].size))
            return status_error(STATUS_INVALID, "stop string %zu is not UTF-8", i);
        total += strings[i].size;
        if (total > INT32_MAX)
            return status_error(STATUS_INVALID, "stop strings are too long");
    }
    new.nodes = calloc(total + 1, sizeof(*new.nodes));
    new.bytes = calloc(total + 1, 1);
    new.texts = malloc(total + 1);
    build.strings = calloc(num_strings + 1, sizeof(*build.strings));
    build.first = calloc(total + 1, sizeof(*build.first));
    build.last = calloc(total + 1, sizeof(*build.last));
    if (!new.nodes || !new.bytes || !new.texts || !build.strings || !build.first || !build.last) {
        status = status_error(STATUS_NO_MEMORY, "no memory for %zu bytes of stop strings", total);
        goto out;
    }
    copy_strings(&new, &build, strings, num_strings);
    new.num_nodes = 1;
    build.last[0] = (uint32_t)num_strings;
    for (uint32_t node = 0; node < new.num_nodes; node++)
        add_children(&new, &build, node);
    *match = new;
    new = (struct stop_match){0};
out:
    stop_match_deinit(&new);
    free(build.strings);
    free(build.first);
    free(build.last);
    return status;
}

void stop_match_deinit(struct stop_match *match)
{
    free(match->nodes);
    free(match->bytes);
    free(match->texts);
    *match = (struct stop_match){0};
}

/* Puts the first size bytes of held text and piece, together, into text; returns size. The held
 * text is the string of node held. */
static size_t release(const struct stop_match *match, uint32_t held, char *text, size_t size)
{
    const struct stop_node *node = &match->nodes[held];
    size_t from_held = size < node->depth ? size : node->depth;

    if (from_held) {
        memmove(text + from_held, text, size - from_held);
        memcpy(text, match->texts + node->text, from_held);
    }
    return size;
}

size_t stop_match_feed(const struct stop_match *match, uint32_t *state, char *text, size_t size,
                       bool *out_matched)
{
    uint32_t before = *state, now = before;

    for (size_t i = 0; i < size; i++) {
        if (now == 0) { /* most bytes of most texts start no stop string */
            now = match->roots[(uint8_t)text[i]];
            if (now == 0)
                continue;
        } else {
            now = step(match, now, (uint8_t)text[i]);
        }
        if (match->nodes[now].match) {
            *out_matched = true;
            return release(match, before, text,
                           match->nodes[before].depth + i + 1 - match->nodes[now].match);
        }
    }
    *state = now;
    return release(match, before, text,
                   match->nodes[before].depth + size - match->nodes[now].depth);
}

size_t stop_match_flush(const struct stop_match *match, uint32_t *state, char *out)
{
    const struct stop_node *node = &match->nodes[*state];

    memcpy(out, match->texts + node->text, node->depth);
    *state = 0;
    return node->depth;
}

void stop_match_check(const struct stop_match *match)
{
    uint32_t next_child = 1;

    for (uint32_t i = 0; i < match->num_nodes; i++) {
        const struct stop_node *node = &match->nodes[i];
        const struct stop_node *fail = &match->nodes[node->fail];
        const uint8_t *text = match->texts + node->text;
        assert(node->first_child == next_child);
        next_child += node->num_children;
        for (uint32_t c = 0; c < node->num_children; c++) {
            const struct stop_node *child = &match->nodes[node->first_child + c];
            assert(child->depth == node->depth + 1);
            assert(memcmp(match->texts + child->text, text, node->depth) == 0);
            assert(match->bytes[node->first_child + c] == match->texts[child->text + node->depth]);
        }
        assert(i == 0 ? node->depth == 0 : fail->depth < node->depth);
        assert(memcmp(match->texts + fail->text, text + node->depth - fail->depth, fail->depth) ==
               0);
        assert(node->match == node->depth || node->match == fail->match);
    }
    assert(next_child == match->num_nodes);
    (void)next_child;
}
