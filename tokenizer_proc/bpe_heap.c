/*
 * bpe_heap.c - BPE in n log n, whatever the merges and the piece: where windows do not do.
 *
 * The symbols are a linked list in an array. A binary heap holds one key for each pair that was
 * ever seen: its rank, then its place. A key whose pair is gone is dropped when it comes up.
 */
#include "tokenizer_proc/bpe.h"

struct symbol {
    int32_t token; /* -1: joined into the one before */
    uint32_t rank; /* of the pair with the next one */
    uint32_t previous, next;
};

#define END UINT32_MAX

struct heap {
    uint64_t *keys; /* rank in the high half, index of the left symbol in the low one */
    size_t num_keys;
};

static void sift_down(struct heap *heap, size_t i)
{
    uint64_t key = heap->keys[i];

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->num_keys)
            break;
        if (child + 1 < heap->num_keys && heap->keys[child + 1] < heap->keys[child])
            child++;
        if (heap->keys[child] >= key)
            break;
        heap->keys[i] = heap->keys[child];
        i = child;
    }
    heap->keys[i] = key;
}

static void push(struct heap *heap, uint64_t key)
{
    size_t i = heap->num_keys++;

    while (i > 0 && heap->keys[(i - 1) / 2] > key) {
        heap->keys[i] = heap->keys[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->keys[i] = key;
}

static uint64_t pop(struct heap *heap)
{
    uint64_t key = heap->keys[0];

    heap->keys[0] = heap->keys[--heap->num_keys];
    sift_down(heap, 0);
    return key;
}

static uint64_t make_key(uint32_t rank, uint32_t at)
{
    return (uint64_t)rank << 32 | at;
}

/* The pair that starts at `at` is a new one. */
static void renew(const struct bpe *bpe, struct symbol *symbols, struct heap *heap, uint32_t at)
{
    symbols[at].rank = symbols[at].next == END
                           ? BPE_NONE
                           : bpe_find(bpe, symbols[at].token, symbols[symbols[at].next].token);
    if (symbols[at].rank != BPE_NONE)
        push(heap, make_key(symbols[at].rank, at));
}

static void join(const struct bpe *bpe, struct symbol *symbols, struct heap *heap, uint32_t at)
{
    struct symbol *left = &symbols[at], *right = &symbols[left->next];

    left->token = bpe->results[left->rank];
    left->next = right->next;
    if (right->next != END)
        symbols[right->next].previous = at;
    right->token = -1;
    right->rank = BPE_NONE;
    renew(bpe, symbols, heap, at);
    if (left->previous != END)
        renew(bpe, symbols, heap, left->previous);
}

struct status bpe_encode_heap(const struct bpe *bpe, struct bpe_scratch *scratch,
                              const uint8_t *piece, size_t size, struct token_list *out)
{
    struct heap heap = {0};
    uint32_t n = 0;

    if (size > UINT32_MAX / 4)
        return status_error(STATUS_UNSUPPORTED, "a word of %zu bytes", size);
    struct status status = buffer_reserve(&scratch->symbols, size * sizeof(struct symbol));
    if (!status.code) /* a join takes one key out at least, and puts two in */
        status = buffer_reserve(&scratch->queue, 2 * size * sizeof(uint64_t));
    if (status.code)
        return status;
    struct symbol *symbols = scratch->symbols.data;
    heap.keys = scratch->queue.data;
    for (size_t i = 0; i < size; i++) {
        int32_t token = bpe->byte_tokens[piece[i]];
        if (token < 0)
            continue;
        symbols[n] = (struct symbol){.token = token, .previous = n - 1, .next = n + 1};
        n++;
    }
    if (n == 0)
        return status;
    symbols[0].previous = symbols[n - 1].next = END;
    for (uint32_t i = 0; i < n; i++) {
        symbols[i].rank =
            i + 1 < n ? bpe_find(bpe, symbols[i].token, symbols[i + 1].token) : BPE_NONE;
        if (symbols[i].rank != BPE_NONE)
            heap.keys[heap.num_keys++] = make_key(symbols[i].rank, i);
    }
    for (size_t i = heap.num_keys / 2; i > 0; i--)
        sift_down(&heap, i - 1);
    while (heap.num_keys > 0) {
        uint64_t key = pop(&heap);
        uint32_t at = (uint32_t)key;
        if (symbols[at].rank == key >> 32)
            join(bpe, symbols, &heap, at);
    }
    status = token_list_reserve(out, n);
    if (status.code)
        return status;
    for (uint32_t i = 0; i != END; i = symbols[i].next)
        out->ids[out->num_ids++] = symbols[i].token;
    return status;
}
