/* test_stop_cache.c - automata shared by content. */
#include "detokenizer_proc/stop_cache.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/check_main.h"

static struct stop_cache cache;

static const struct stop_match *take(const char *first, const char *second)
{
    const struct stop_match *match = NULL;
    struct bytes strings[2];
    size_t n = 0;

    if (first)
        strings[n++] = (struct bytes){(const uint8_t *)first, strlen(first)};
    if (second)
        strings[n++] = (struct bytes){(const uint8_t *)second, strlen(second)};
    ck_assert_int_eq(stop_cache_take(&cache, strings, n, &match).code, STATUS_OK);
    stop_cache_check(&cache);
    return match;
}

static void give(const struct stop_match *match)
{
    stop_cache_give(&cache, match);
    stop_cache_check(&cache);
}

START_TEST(same_list_is_shared)
{
    ck_assert_int_eq(stop_cache_init(&cache, 4).code, STATUS_OK);
    const struct stop_match *a = take("END", "STOP");
    ck_assert_ptr_eq(take("END", "STOP"), a);
    ck_assert_ptr_ne(take("ENDS", "TOP"), a); /* other strings of the same bytes */
    ck_assert_ptr_ne(take("END", NULL), a);
    ck_assert_ptr_null(take(NULL, NULL));
    give(NULL);
    stop_cache_deinit(&cache);
}
END_TEST

START_TEST(unused_ones_are_kept_up_to_a_bound)
{
    const struct stop_match *taken[8];

    ck_assert_int_eq(stop_cache_init(&cache, 4).code, STATUS_OK);
    for (int i = 0; i < 8; i++) {
        char text[] = {(char)('a' + i), '\0'};
        taken[i] = take(text, NULL);
    }
    ck_assert_uint_eq(cache.num_entries, 8);
    for (int i = 0; i < 8; i++)
        give(taken[i]);
    ck_assert_uint_eq(cache.num_entries, 4);
    const struct stop_match *e = take("e", NULL); /* the oldest that is left */
    ck_assert_ptr_eq(e, taken[4]);
    give(e);
    give(take("new", NULL)); /* so "f" goes */
    ck_assert_ptr_eq(take("e", NULL), taken[4]);
    stop_cache_deinit(&cache);
}
END_TEST

START_TEST(many_lists)
{
    const struct stop_match *taken[1000];

    ck_assert_int_eq(stop_cache_init(&cache, 0).code, STATUS_OK);
    for (int i = 0; i < 1000; i++) {
        char text[16];
        struct bytes string = {(const uint8_t *)text, (size_t)snprintf(text, 16, "stop %d", i)};
        ck_assert_int_eq(stop_cache_take(&cache, &string, 1, &taken[i]).code, STATUS_OK);
    }
    stop_cache_check(&cache);
    for (int i = 0; i < 1000; i++)
        stop_cache_give(&cache, taken[i]);
    stop_cache_check(&cache);
    ck_assert_uint_eq(cache.num_entries, 0);
    stop_cache_deinit(&cache);
}
END_TEST

START_TEST(refused_lists_leave_nothing)
{
    const struct bytes broken = {(const uint8_t *)"\xFF", 1};
    const struct stop_match *match = NULL;

    ck_assert_int_eq(stop_cache_init(&cache, 4).code, STATUS_OK);
    ck_assert_int_eq(stop_cache_take(&cache, &broken, 1, &match).code, STATUS_INVALID);
    ck_assert_uint_eq(cache.num_entries, 0);
    stop_cache_deinit(&cache);
}
END_TEST

CHECK_MAIN("stop_cache", same_list_is_shared, unused_ones_are_kept_up_to_a_bound, many_lists,
           refused_lists_leave_nothing)
