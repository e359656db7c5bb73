/* added_tokens.c - see added_tokens.h. */
#include "tokenizer_proc/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer_proc/unicode.h"

/* ---- building ---- */

/* A new node, or -1. */
static int32_t add_node(struct added_trie *trie, uint8_t byte)
{
    if (trie->num_nodes == trie->capacity) {
        if (trie->capacity > INT32_MAX / 4)
            return -1;
        int32_t capacity = trie->capacity ? trie->capacity * 2 : 256;
        struct added_node *nodes = realloc(trie->nodes, (size_t)capacity * sizeof(*nodes));
        if (!nodes)
            return -1;
        trie->nodes = nodes;
        trie->capacity = capacity;
    }
    trie->nodes[trie->num_nodes] = (struct added_node){.byte = byte, .token = -1};
    return trie->num_nodes++;
}

static int32_t find_child(const struct added_trie *trie, int32_t node, uint8_t byte)
{
    int32_t child = trie->nodes[node].child;

    while (child && trie->nodes[child].byte != byte)
        child = trie->nodes[child].sibling;
    return child;
}

static struct status insert(struct added_trie *trie, const uint8_t *content, size_t size,
                            int32_t token)
{
    int32_t node = 0;

    if (trie->num_nodes == 0 && add_node(trie, 0) < 0)
        return status_error(STATUS_NO_MEMORY, "no memory for added tokens");
    for (size_t i = 0; i < size; i++) {
        int32_t child = find_child(trie, node, content[i]);
        if (!child) {
            child = add_node(trie, content[i]);
            if (child < 0)
                return status_error(STATUS_NO_MEMORY, "no memory for added tokens");
            trie->nodes[child].sibling = trie->nodes[node].child;
            trie->nodes[node].child = child;
            if (node == 0) {
                trie->roots[content[i]] = child;
                trie->num_roots++;
                trie->first = content[i];
            }
        }
        node = child;
    }
    trie->nodes[node].token = token;
    return status_ok();
}

/* The index of the token with that content, or -1. */
static int32_t find_token(const struct added_tokens *added, const char *content, size_t size)
{
    const struct added_trie *trie = &added->all;
    int32_t node = 0;

    if (trie->num_nodes == 0)
        return -1;
    for (size_t i = 0; i < size; i++) {
        node = find_child(trie, node, (uint8_t)content[i]);
        if (!node)
            return -1;
    }
    return trie->nodes[node].token;
}

struct status added_tokens_add(struct added_tokens *added, int32_t id, unsigned flags,
                               const char *content, size_t size)
{
    if (size == 0)
        return status_ok();
    int32_t known = find_token(added, content, size);
    if (known >= 0) {
        added->tokens[known].id = id;
        added->tokens[known].flags = flags;
        return status_ok();
    }
    if (added->num_tokens == added->capacity) {
        int32_t capacity = added->capacity ? added->capacity * 2 : 32;
        struct added_token *tokens = realloc(added->tokens, (size_t)capacity * sizeof(*tokens));
        if (!tokens)
            return status_error(STATUS_NO_MEMORY, "no memory for %d added tokens", capacity);
        added->tokens = tokens;
        added->capacity = capacity;
    }
    uint8_t *copy = malloc(size);
    if (!copy)
        return status_error(STATUS_NO_MEMORY, "no memory for an added token of %zu bytes", size);
    memcpy(copy, content, size);
    added->tokens[added->num_tokens++] =
        (struct added_token){.id = id, .flags = flags, .content = copy, .size = size};
    return insert(&added->all, copy, size, added->num_tokens - 1);
}

struct status added_tokens_finish(struct added_tokens *added, bool use_nfc)
{
    struct status status = status_ok();
    struct nfc nfc = {0};

    for (int32_t i = 0; i < added->num_tokens && !status.code; i++) {
        const struct added_token *token = &added->tokens[i];
        if (!(token->flags & ADDED_TOKEN_NORMALIZED)) {
            status = insert(&added->raw, token->content, token->size, i);
        } else if (!use_nfc) {
            status = insert(&added->normalized, token->content, token->size, i);
        } else {
            status = nfc_normalize(&nfc, token->content, token->size,
                                   nfc_find_unstable(token->content, token->size));
            if (!status.code)
                status = insert(&added->normalized, nfc.text.data, nfc.size, i);
        }
    }
    nfc_deinit(&nfc);
    return status;
}

void added_tokens_deinit(struct added_tokens *added)
{
    for (int32_t i = 0; i < added->num_tokens; i++)
        free(added->tokens[i].content);
    free(added->tokens);
    free(added->all.nodes);
    free(added->raw.nodes);
    free(added->normalized.nodes);
    *added = (struct added_tokens){0};
}

/* ---- cutting ---- */

enum verdict { ALLOWED, FORBIDDEN, FORBIDDEN_IN_PART };

/* Whether a special token may match [start, end) of the cutter's text; in part: some of its bytes
 * are the template's own, so another token may yet match there. */
static enum verdict judge(const struct added_cutter *cutter, const struct added_token *token,
                          size_t start, size_t end)
{
    const struct added_scope *scope = cutter->scope;
    size_t low = 0, high = scope->num_data_ranges;

    if (!(token->flags & ADDED_TOKEN_SPECIAL))
        return ALLOWED;
    if (!scope->parse_special)
        return FORBIDDEN;
    if (high == 0)
        return ALLOWED;
    if (scope->nfc)
        nfc_source(scope->nfc, start, end, &start, &end);
    start += scope->offset;
    end += scope->offset;
    while (low < high) { /* the first range that ends behind start */
        size_t middle = (low + high) / 2;
        if (scope->data_ranges[middle].end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < scope->num_data_ranges &&
           scope->data_ranges[low].start == scope->data_ranges[low].end)
        low++;
    if (low == scope->num_data_ranges || scope->data_ranges[low].start >= end)
        return ALLOWED;
    const struct text_range *range = &scope->data_ranges[low];
    return range->start <= start && range->end >= end ? FORBIDDEN : FORBIDDEN_IN_PART;
}

struct match {
    size_t start, end;
    int32_t token;
};

/* The next match at or behind `from`. A forbidden special token takes its text out of the search,
 * as the reference does when told to split special tokens, but for the in-part case. */
static bool find_match(const struct added_cutter *cutter, size_t from, struct match *out)
{
    const struct added_trie *trie = cutter->trie;
    const uint8_t *text = cutter->text;
    size_t at = from;

    while (at < cutter->size) {
        if (trie->num_roots == 1) {
            const uint8_t *first = memchr(text + at, trie->first, cutter->size - at);
            if (!first)
                return false;
            at = (size_t)(first - text);
        }
        int32_t node = trie->roots[text[at]];
        if (!node) {
            at++;
            continue;
        }
        struct match longest = {.token = -1}, allowed = {.token = -1};
        enum verdict verdict = ALLOWED;
        for (size_t i = at; node;) {
            int32_t token = trie->nodes[node].token;
            i++;
            if (token >= 0) {
                longest = (struct match){at, i, token};
                verdict = judge(cutter, &cutter->added->tokens[token], at, i);
                if (verdict == ALLOWED)
                    allowed = longest;
            }
            if (i == cutter->size)
                break;
            node = find_child(trie, node, text[i]);
        }
        bool is_forbidden = longest.token >= 0 && verdict == FORBIDDEN;
        if (allowed.token >= 0 && !is_forbidden) {
            *out = allowed;
            return true;
        }
        at = is_forbidden ? longest.end : at + 1;
    }
    return false;
}

static bool touches_word(const struct added_cutter *cutter, size_t start, size_t end)
{
    const uint8_t *text = cutter->text;
    size_t size;

    if (start > 0 && unicode_class_before(text, text + start) & UNICODE_WORD)
        return true;
    return end < cutter->size && unicode_class_at(text + end, &size) & UNICODE_WORD;
}

static size_t strip_left(const struct added_cutter *cutter, size_t start)
{
    const uint8_t *text = cutter->text;

    while (start > cutter->split_at && unicode_class_before(text, text + start) & UNICODE_SPACE) {
        do
            start--;
        while (start > cutter->split_at && (text[start] & 0xC0) == 0x80);
    }
    return start;
}

static size_t strip_right(const struct added_cutter *cutter, size_t end)
{
    size_t size = 0;

    while (end < cutter->size && unicode_class_at(cutter->text + end, &size) & UNICODE_SPACE)
        end += size;
    return end;
}

void added_cutter_init(struct added_cutter *cutter, const struct added_tokens *added,
                       const struct added_trie *trie, const struct added_scope *scope,
                       const uint8_t *text, size_t size)
{
    *cutter = (struct added_cutter){
        .added = added, .trie = trie, .scope = scope, .text = text, .size = size};
}

bool added_cutter_next(struct added_cutter *cutter, struct added_piece *out)
{
    struct match match = {0};

    if (cutter->has_next) {
        *out = cutter->next;
        cutter->has_next = false;
        return true;
    }
    while (cutter->search_at < cutter->size && cutter->trie->num_nodes > 0 &&
           find_match(cutter, cutter->search_at, &match)) {
        unsigned flags = cutter->added->tokens[match.token].flags;
        cutter->search_at = match.end;
        if (flags & ADDED_TOKEN_SINGLE_WORD && touches_word(cutter, match.start, match.end))
            continue;
        size_t text_at = cutter->split_at, start = match.start, end = match.end;
        /* A match may begin inside what rstrip of the one before has swallowed: then it keeps its
         * start, and only lstrip is bounded, as in the reference. */
        if (flags & ADDED_TOKEN_LSTRIP && start > text_at)
            start = strip_left(cutter, start);
        else if (flags & ADDED_TOKEN_LSTRIP)
            start = text_at;
        if (flags & ADDED_TOKEN_RSTRIP)
            end = strip_right(cutter, end);
        cutter->split_at = end;
        struct added_piece piece = {start, end, match.token};
        if (text_at < start) {
            *out = (struct added_piece){text_at, start, -1};
            cutter->next = piece;
            cutter->has_next = true;
        } else {
            *out = piece;
        }
        return true;
    }
    cutter->search_at = cutter->size;
    if (cutter->split_at < cutter->size) {
        *out = (struct added_piece){cutter->split_at, cutter->size, -1};
        cutter->split_at = cutter->size;
        return true;
    }
    return false;
}
