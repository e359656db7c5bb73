/* test_radix_cache.c - match, insert, lock and eviction over whole pages; after each step a check.
 */
#include "scheduler_proc/radix_cache.h"

#include <string.h>

#include "scheduler_proc/naive_cache.h"
#include "tests/unit/check_main.h"

enum { PAGE = 4, NUM_PAGES = 32, MAX_LOCKED = 8 };

static struct prefix_cache *cache;
static struct page_pool pool;
static struct cache_handle locked[MAX_LOCKED];
static int32_t num_locked;
static const struct cache_handle root;

static void setup(void)
{
    ck_assert_int_eq(page_pool_init(&pool, NUM_PAGES).code, STATUS_OK);
    ck_assert_int_eq(radix_cache_create(NUM_PAGES, PAGE, &cache).code, STATUS_OK);
    num_locked = 0;
}

static void teardown(void)
{
    prefix_cache_destroy(&cache);
    page_pool_deinit(&pool);
}

/* Each page is free or in the tree, once; counts and list are right. */
static void check(void)
{
    uint8_t marks[NUM_PAGES] = {0};
    struct status status = page_pool_check(&pool, marks);

    ck_assert_int_eq(status.code, STATUS_OK);
    status = prefix_cache_check(cache, locked, num_locked, marks);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    for (int32_t page = 0; page < NUM_PAGES; page++)
        ck_assert_int_eq(marks[page], 1);
}

/* Ids from text: one letter is one page of that letter. */
static const int32_t *ids_of(const char *text)
{
    static int32_t ids[4][NUM_PAGES * PAGE];
    static int turn;
    int32_t *out = ids[turn++ % 4];

    for (size_t i = 0; text[i] != '\0'; i++)
        for (int32_t j = 0; j < PAGE; j++)
            out[i * PAGE + (size_t)j] = text[i];
    return out;
}

static struct cache_handle match(const char *text)
{
    struct cache_handle handle =
        prefix_cache_match(cache, root, ids_of(text), (int32_t)strlen(text));

    check();
    return handle;
}

/* As a request does: take what is there, and put the rest behind it. */
static struct cache_handle insert(const char *text)
{
    int32_t pages[NUM_PAGES];
    int32_t num_pages = (int32_t)strlen(text);
    struct cache_handle from = prefix_cache_match(cache, root, ids_of(text), num_pages);

    ck_assert_int_eq(page_pool_take(&pool, num_pages - from.num_pages, pages + from.num_pages).code,
                     STATUS_OK);
    from = prefix_cache_insert(cache, from, ids_of(text), pages, num_pages);
    ck_assert_int_eq(from.num_pages, num_pages);
    check();
    return from;
}

static void lock(struct cache_handle handle)
{
    prefix_cache_lock(cache, root, handle);
    locked[num_locked++] = handle;
    check();
}

static void unlock_last(void)
{
    prefix_cache_unlock(cache, locked[--num_locked]);
    check();
}

static int32_t evict(int32_t num_pages)
{
    int32_t num_freed = prefix_cache_evict(cache, num_pages, &pool);

    check();
    return num_freed;
}

START_TEST(what_was_inserted_is_matched)
{
    setup();
    ck_assert_int_eq(match("abc").num_pages, 0);
    insert("abc");
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abxx"), 4), 2); /* and nothing is split */
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abcd"), 4), 3);
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abcd"), 1), 1);
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("x"), 1), 0);
    ck_assert_int_eq(match("abc").num_pages, 3);
    ck_assert_int_eq(match("abcd").num_pages, 3);
    ck_assert_int_eq(match("ab").num_pages, 2);
    ck_assert_int_eq(match("bc").num_pages, 0);
    ck_assert_int_eq(match("").num_pages, 0);
    ck_assert_int_eq(cache->evictable_pages, 3);
    insert("abcdefgh"); /* a node behind a node */
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abcdefgh"), 8), 8);
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abcdefgh"), 5), 5);
    ck_assert_int_eq(prefix_cache_peek(cache, ids_of("abcdxxxx"), 8), 4);
    teardown();
}
END_TEST

START_TEST(only_whole_pages_match)
{
    int32_t ids[2 * PAGE] = {0};

    setup();
    insert("aa");
    for (int32_t i = 0; i < 2 * PAGE; i++)
        ids[i] = i < 2 * PAGE - 1 ? 'a' : 'b';
    ck_assert_int_eq(prefix_cache_match(cache, root, ids, 2).num_pages, 1);
    ids[0] = 'b';
    ck_assert_int_eq(prefix_cache_match(cache, root, ids, 2).num_pages, 0);
    check();
    teardown();
}
END_TEST

START_TEST(branches_split_at_the_page_where_they_part)
{
    int32_t pages[8], shared[8];

    setup();
    struct cache_handle first = insert("abcde");
    prefix_cache_get_pages(cache, root, first, pages);
    struct cache_handle second = insert("abxyz");
    prefix_cache_get_pages(cache, root, second, shared);
    ck_assert_mem_eq(pages, shared, 2 * sizeof(pages[0]));
    ck_assert_int_ne(pages[2], shared[2]);
    ck_assert_int_eq(cache->evictable_pages, 8);
    /* The handle of the first keeps its length and its pages. */
    prefix_cache_get_pages(cache, root, first, shared);
    ck_assert_mem_eq(pages, shared, 5 * sizeof(pages[0]));
    memset(shared, 0, sizeof(shared));
    struct cache_handle middle = match("abcd");
    prefix_cache_get_pages(cache, match("ab"), middle, shared);
    ck_assert_mem_eq(pages + 2, shared + 2, 2 * sizeof(pages[0]));
    ck_assert_int_eq(shared[0] + shared[1] + shared[4], 0);
    teardown();
}
END_TEST

START_TEST(a_match_goes_on_from_a_handle)
{
    setup();
    struct cache_handle ab = insert("ab");
    insert("abcd");
    ck_assert_int_eq(prefix_cache_match(cache, ab, ids_of("abcx"), 4).num_pages, 3);
    ck_assert_int_eq(prefix_cache_match(cache, ab, ids_of("abxx"), 4).num_pages, 2);
    check();
    teardown();
}
END_TEST

START_TEST(the_oldest_leaf_goes_first)
{
    setup();
    insert("ab");
    insert("cd");
    insert("ef");
    match("ab"); /* a use */
    ck_assert_int_eq(evict(1), 2);
    ck_assert_int_eq(match("cd").num_pages, 0);
    ck_assert_int_eq(evict(1), 2);
    ck_assert_int_eq(match("ef").num_pages, 0);
    ck_assert_int_eq(match("ab").num_pages, 2);
    teardown();
}
END_TEST

START_TEST(no_more_is_evicted_than_needed)
{
    setup();
    insert("ab");
    insert("cd");
    insert("ef");
    ck_assert_int_eq(evict(2), 2);
    ck_assert_int_eq(evict(0), 0);
    ck_assert_int_eq(cache->evictable_pages, 4);
    teardown();
}
END_TEST

START_TEST(a_parent_goes_behind_its_children)
{
    setup();
    insert("abcd");
    insert("abxy");
    match("ab");
    ck_assert_int_eq(evict(1), 2); /* cd */
    ck_assert_int_eq(match("abcd").num_pages, 2);
    ck_assert_int_eq(evict(1), 2); /* xy, though ab and all below is older or younger */
    ck_assert_int_eq(match("abxy").num_pages, 2);
    ck_assert_int_eq(evict(100), 2);
    ck_assert_int_eq(evict(100), 0);
    ck_assert_int_eq(pool.num_free, NUM_PAGES);
    teardown();
}
END_TEST

START_TEST(a_locked_prefix_stays)
{
    setup();
    struct cache_handle abc = insert("abc");
    insert("abcde");
    insert("xyz");
    lock(abc);
    ck_assert_int_eq(cache->protected_pages, 3);
    ck_assert_int_eq(cache->evictable_pages, 5);
    ck_assert_int_eq(evict(100), 5);
    ck_assert_int_eq(match("abcde").num_pages, 3);
    unlock_last();
    ck_assert_int_eq(cache->protected_pages, 0);
    ck_assert_int_eq(evict(100), 3);
    teardown();
}
END_TEST

START_TEST(a_split_of_a_locked_node_keeps_both_halves)
{
    setup();
    lock(insert("abcd"));
    ck_assert_int_eq(match("ab").num_pages, 2);
    lock(match("ab"));
    ck_assert_int_eq(cache->protected_pages, 4);
    struct cache_handle ab = locked[1];
    locked[1] = locked[0];
    locked[0] = ab;
    unlock_last(); /* of abcd */
    ck_assert_int_eq(cache->protected_pages, 2);
    ck_assert_int_eq(evict(100), 2);
    ck_assert_int_eq(match("abcd").num_pages, 2);
    unlock_last();
    teardown();
}
END_TEST

START_TEST(a_lock_moves_down)
{
    setup();
    struct cache_handle ab = insert("ab");
    lock(ab);
    struct cache_handle abcd = insert("abcd");
    prefix_cache_lock(cache, ab, abcd);
    locked[0] = abcd;
    check();
    ck_assert_int_eq(cache->protected_pages, 4);
    unlock_last();
    ck_assert_int_eq(cache->protected_pages, 0);
    teardown();
}
END_TEST

START_TEST(pages_and_nodes_are_used_again)
{
    char text[5] = "0000";

    setup();
    for (int round = 0; round < 500; round++) {
        for (int i = 0; i < 4; i++)
            text[i] = (char)('a' + (round * 7 + i * i * round / 3) % 5);
        if (pool.num_free < 4)
            evict(4 - pool.num_free);
        insert(text);
    }
    evict(100);
    ck_assert_int_eq(pool.num_free, NUM_PAGES);
    teardown();
}
END_TEST

START_TEST(check_sees_a_broken_tree)
{
    uint8_t marks[NUM_PAGES] = {0};

    setup();
    struct cache_handle ab = insert("ab");
    ck_assert_int_eq(prefix_cache_check(cache, &ab, 1, marks).code, STATUS_INVALID);
    cache->evictable_pages++;
    ck_assert_int_eq(prefix_cache_check(cache, NULL, 0, marks).code, STATUS_INVALID);
    cache->evictable_pages--;
    ab.num_pages++;
    ck_assert_int_eq(prefix_cache_check(cache, &ab, 1, marks).code, STATUS_INVALID);
    teardown();
}
END_TEST

START_TEST(naive_keeps_nothing)
{
    struct prefix_cache *naive = NULL;
    const int32_t pages[2] = {0, 1};
    uint8_t marks[NUM_PAGES] = {0};

    setup();
    ck_assert_int_eq(naive_cache_create(&naive).code, STATUS_OK);
    struct cache_handle handle = prefix_cache_insert(naive, root, ids_of("ab"), pages, 2);
    ck_assert_int_eq(handle.num_pages, 0);
    ck_assert_int_eq(prefix_cache_match(naive, root, ids_of("ab"), 2).num_pages, 0);
    prefix_cache_lock(naive, root, handle);
    prefix_cache_unlock(naive, handle);
    ck_assert_int_eq(prefix_cache_evict(naive, 5, &pool), 0);
    ck_assert_int_eq(prefix_cache_check(naive, &handle, 1, marks).code, STATUS_OK);
    ck_assert_int_eq(marks[0], 0);
    prefix_cache_destroy(&naive);
    teardown();
}
END_TEST

CHECK_MAIN("radix_cache", what_was_inserted_is_matched, only_whole_pages_match,
           branches_split_at_the_page_where_they_part, a_match_goes_on_from_a_handle,
           the_oldest_leaf_goes_first, no_more_is_evicted_than_needed,
           a_parent_goes_behind_its_children, a_locked_prefix_stays,
           a_split_of_a_locked_node_keeps_both_halves, a_lock_moves_down,
           pages_and_nodes_are_used_again, check_sees_a_broken_tree, naive_keeps_nothing)
