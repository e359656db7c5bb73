/* test_rid_ring.c - names of requests, the last few thousand of them. */
#include "tokenizer_proc/rid_ring.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/check_main.h"

static const struct client_id alice = {.bytes = {1}};
static const struct client_id bob = {.bytes = {2}};

static struct bytes rid(const char *text)
{
    return (struct bytes){.data = (const uint8_t *)text, .size = strlen(text)};
}

static struct rid_ring *create(void)
{
    struct rid_ring *ring = NULL;

    ck_assert_int_eq(rid_ring_create(&ring).code, STATUS_OK);
    return ring;
}

START_TEST(names_belong_to_their_clients)
{
    struct rid_ring *ring = create();

    ck_assert_uint_eq(rid_ring_find(ring, &alice, rid("a")), 0);
    rid_ring_put(ring, &alice, rid("a"), 1);
    rid_ring_put(ring, &bob, rid("a"), 2);
    rid_ring_put(ring, &alice, rid("ab"), 3);
    ck_assert_uint_eq(rid_ring_find(ring, &alice, rid("a")), 1);
    ck_assert_uint_eq(rid_ring_find(ring, &bob, rid("a")), 2);
    ck_assert_uint_eq(rid_ring_find(ring, &alice, rid("ab")), 3);
    ck_assert_uint_eq(rid_ring_find(ring, &bob, rid("ab")), 0);
    rid_ring_destroy(&ring);
}
END_TEST

START_TEST(of_equal_names_the_later_counts)
{
    struct rid_ring *ring = create();

    rid_ring_put(ring, &alice, rid("a"), 1);
    rid_ring_put(ring, &alice, rid("a"), 2);
    ck_assert_uint_eq(rid_ring_find(ring, &alice, rid("a")), 2);
    rid_ring_destroy(&ring);
}
END_TEST

START_TEST(the_oldest_names_are_forgotten)
{
    enum { NUM_PUT = 3 * RID_RING_SIZE + 5 };
    struct rid_ring *ring = create();
    char text[MAX_RID_BYTES + 1];

    for (int i = 1; i <= NUM_PUT; i++) {
        snprintf(text, sizeof(text), "%0*d", i % 2 ? MAX_RID_BYTES : 10, i);
        rid_ring_put(ring, i % 3 ? &alice : &bob, rid(text), (uint64_t)i);
    }
    for (int i = 1; i <= NUM_PUT; i++) {
        uint64_t expected = i > NUM_PUT - RID_RING_SIZE ? (uint64_t)i : 0;
        snprintf(text, sizeof(text), "%0*d", i % 2 ? MAX_RID_BYTES : 10, i);
        ck_assert_uint_eq(rid_ring_find(ring, i % 3 ? &alice : &bob, rid(text)), expected);
    }
    rid_ring_destroy(&ring);
}
END_TEST

CHECK_MAIN("rid_ring", names_belong_to_their_clients, of_equal_names_the_later_counts,
           the_oldest_names_are_forgotten)
