/* test_bpe.c - every way to encode a piece against the plain definition, on random merges and
 * texts. */
#include "tokenizer_proc/bpe.h"

#include <string.h>

#include "tests/unit/check_main.h"
#include "tokenizer_proc/joints.h"

enum { MAX_TOKENS = 400, MAX_TEXT = 9000 };

static uint64_t random_state;

static uint32_t draw(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

struct model {
    struct bpe bpe;
    struct joints joints;
    uint8_t bytes[MAX_TOKENS][64];
    size_t sizes[MAX_TOKENS];
    int num_tokens;
};

static int find_token(const struct model *model, const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < model->num_tokens; i++) {
        if (model->sizes[i] == size && memcmp(model->bytes[i], bytes, size) == 0)
            return i;
    }
    return -1;
}

/* Random merges of tokens that are there. In training order, or shuffled: a merge may then stand
 * before those that make its parts. alphabet: how many different bytes its tokens are made of. */
static void make_model(struct model *model, const char *alphabet, uint32_t num_merges, bool shuffle)
{
    int32_t list[MAX_TOKENS][3];
    uint32_t n = 0;

    memset(model, 0, sizeof(*model));
    model->num_tokens = 256;
    for (int i = 0; i < 256; i++) {
        model->bytes[i][0] = (uint8_t)i;
        model->sizes[i] = 1;
        model->bpe.byte_tokens[i] = i;
    }
    for (uint32_t tries = 0; n < num_merges && tries < num_merges * 20; tries++) {
        int sides[2];
        for (int s = 0; s < 2; s++) {
            uint32_t i = draw((uint32_t)strlen(alphabet) + (uint32_t)model->num_tokens - 256);
            sides[s] =
                i < strlen(alphabet) ? (uint8_t)alphabet[i] : (int)(i - strlen(alphabet)) + 256;
        }
        uint8_t bytes[128];
        size_t size = model->sizes[sides[0]] + model->sizes[sides[1]];
        bool known = false;
        for (uint32_t i = 0; i < n; i++)
            known |= list[i][0] == sides[0] && list[i][1] == sides[1];
        if (size > 40 || known)
            continue;
        memcpy(bytes, model->bytes[sides[0]], model->sizes[sides[0]]);
        memcpy(bytes + model->sizes[sides[0]], model->bytes[sides[1]], model->sizes[sides[1]]);
        int result = find_token(model, bytes, size); /* two merges may make the same token */
        if (result < 0) {
            result = model->num_tokens++;
            memcpy(model->bytes[result], bytes, size);
            model->sizes[result] = size;
        }
        list[n][0] = sides[0];
        list[n][1] = sides[1];
        list[n++][2] = result;
        joints_add(&model->joints, model->bytes[sides[0]], model->sizes[sides[0]],
                   model->bytes[sides[1]], model->sizes[sides[1]]);
    }
    for (uint32_t i = n; shuffle && i > 1; i--) {
        uint32_t j = draw(i);
        int32_t kept[3];
        memcpy(kept, list[i - 1], sizeof(kept));
        memcpy(list[i - 1], list[j], sizeof(kept));
        memcpy(list[j], kept, sizeof(kept));
    }
    ck_assert_int_eq(bpe_init(&model->bpe, n).code, STATUS_OK);
    for (uint32_t i = 0; i < n; i++)
        bpe_add(&model->bpe, list[i][0], list[i][1], list[i][2]);
    bpe_finish(&model->bpe);
}

/* The definition: join the leftmost pair of the lowest rank until there is none. */
static size_t encode_plainly(const struct bpe *bpe, const uint8_t *text, size_t size, int32_t *ids)
{
    size_t n = 0;

    for (size_t i = 0; i < size; i++) {
        if (bpe->byte_tokens[text[i]] >= 0)
            ids[n++] = bpe->byte_tokens[text[i]];
    }
    for (;;) {
        uint32_t best = BPE_NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t rank = bpe_find(bpe, ids[i], ids[i + 1]);
            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (best == BPE_NONE)
            return n;
        ids[at] = bpe->results[best];
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof(*ids));
        n--;
    }
}

static void check_same(const struct token_list *list, const int32_t *ids, size_t num_ids)
{
    ck_assert_uint_eq(list->num_ids, num_ids);
    ck_assert_int_eq(num_ids ? memcmp(list->ids, ids, num_ids * sizeof(*ids)) : 0, 0);
}

/* Random text of the alphabet, with repetitions of its own beginning. */
static size_t make_text(const char *alphabet, size_t max, uint8_t *out)
{
    size_t size = 1 + draw((uint32_t)max), at = 0;

    while (at < size) {
        if (at > 4 && draw(4) == 0) {
            size_t n = 1 + draw((uint32_t)at);
            n = n < size - at ? n : size - at;
            memcpy(out + at, out, n);
            at += n;
        } else {
            out[at++] = (uint8_t)alphabet[draw((uint32_t)strlen(alphabet))];
        }
    }
    return size;
}

static void check_random(const char *alphabet, bool shuffle, size_t max, int rounds)
{
    static struct model model;
    static uint8_t text[MAX_TEXT];
    static int32_t ids[MAX_TEXT];
    struct bpe_scratch scratch = {0};
    struct token_list list = {0};

    for (int round = 0; round < rounds; round++) {
        make_model(&model, alphabet, 1 + draw(100), shuffle);
        if (draw(8) == 0) { /* a byte without a token */
            model.bpe.byte_tokens[(uint8_t)alphabet[0]] = -1;
            bpe_finish(&model.bpe);
        }
        for (int i = 0; i < 20; i++) {
            size_t size = make_text(alphabet, max, text);
            size_t num_ids = encode_plainly(&model.bpe, text, size, ids);
            list.num_ids = 0;
            ck_assert_int_eq(bpe_encode_heap(&model.bpe, &scratch, text, size, &list).code,
                             STATUS_OK);
            check_same(&list, ids, num_ids);
            list.num_ids = 0;
            ck_assert_int_eq(bpe_encode(&model.bpe, &scratch, text, size, &list).code, STATUS_OK);
            check_same(&list, ids, num_ids);
            bool done = false; /* in windows, unless they do not do */
            list.num_ids = 0;
            ck_assert_int_eq(bpe_encode_windows(&model.bpe, text, size, &list, &done).code,
                             STATUS_OK);
            check_same(&list, ids, done ? num_ids : 0);
            list.num_ids = 0; /* cut where nothing joins */
            for (size_t at = 0, part = 0; at < size && model.bpe.has_all_bytes; at += part) {
                part = joints_cut(&model.joints, text + at, size - at);
                ck_assert_int_eq(bpe_encode(&model.bpe, &scratch, text + at, part, &list).code,
                                 STATUS_OK);
            }
            if (model.bpe.has_all_bytes)
                check_same(&list, ids, num_ids);
        }
        bpe_deinit(&model.bpe);
    }
    bpe_scratch_deinit(&scratch);
    token_list_deinit(&list);
}

START_TEST(short_pieces_in_training_order)
{
    random_state = 1;
    check_random("ab", false, 64, 100);
    check_random("abcdefg", false, 64, 100);
}
END_TEST

START_TEST(short_pieces_in_any_order)
{
    random_state = 2;
    check_random("ab", true, 64, 100);
    check_random("abcdefg", true, 64, 100);
}
END_TEST

START_TEST(long_pieces)
{
    random_state = 3;
    check_random("ab", false, 600, 20);
    check_random("abcdefghijklmnopqrstuvwxyz", true, 600, 20);
}
END_TEST

START_TEST(pieces_of_several_windows)
{
    random_state = 4;
    check_random("a", false, 8000, 2);
    check_random("ab", false, 8000, 3);
    check_random("abcdefghij", true, 8000, 2);
}
END_TEST

/* Tokens t0 t1 t2 ... of two bytes each, and merges of neighbours, the later ones first: so the end
 * of the row decides whether t0 joins t1, or t1 joins t2. A window that cuts the row at the wrong
 * place is wrong throughout, its seam does not hold, and the piece must be encoded as a whole. */
START_TEST(windows_that_do_not_meet)
{
    enum { SIDE = 30, ROW = SIDE * SIDE };
    static struct model model;
    static uint8_t text[MAX_TEXT];
    static int32_t ids[MAX_TEXT];
    struct bpe_scratch scratch = {0};
    struct token_list list = {0};
    int num_failed = 0;

    memset(&model, 0, sizeof(model));
    for (int i = 0; i < 256; i++)
        model.bpe.byte_tokens[i] = i;
    ck_assert_int_eq(bpe_init(&model.bpe, 2 * ROW).code, STATUS_OK);
    for (int i = 0; i < ROW; i++)
        bpe_add(&model.bpe, 128 + i / SIDE, 192 + i % SIDE, 256 + i);
    for (int i = ROW - 2; i >= 0; i--)
        bpe_add(&model.bpe, 256 + i, 257 + i, 256 + ROW + i);
    bpe_finish(&model.bpe);
    for (size_t before = 690; before < 710; before++) {
        size_t size = before;
        memset(text, 'z', before);
        for (int i = 0; i < ROW; i++) {
            text[size++] = (uint8_t)(128 + i / SIDE);
            text[size++] = (uint8_t)(192 + i % SIDE);
        }
        size_t num_ids = encode_plainly(&model.bpe, text, size, ids);
        list.num_ids = 0;
        ck_assert_int_eq(bpe_encode(&model.bpe, &scratch, text, size, &list).code, STATUS_OK);
        check_same(&list, ids, num_ids);
        bool done = false;
        list.num_ids = 0;
        ck_assert_int_eq(bpe_encode_windows(&model.bpe, text, size, &list, &done).code, STATUS_OK);
        num_failed += !done;
    }
    ck_assert_int_gt(num_failed, 5);
    bpe_deinit(&model.bpe);
    bpe_scratch_deinit(&scratch);
    token_list_deinit(&list);
}
END_TEST

CHECK_MAIN("bpe", short_pieces_in_training_order, short_pieces_in_any_order, long_pieces,
           pieces_of_several_windows, windows_that_do_not_meet)
