/* test_page_pool.c - taking and giving page numbers. */
#include "scheduler_proc/page_pool.h"

#include "tests/unit/check_main.h"

START_TEST(take_is_all_or_none)
{
    struct page_pool pool;
    int32_t pages[5] = {-1, -1, -1, -1, -1};

    ck_assert_int_eq(page_pool_init(&pool, 4).code, STATUS_OK);
    ck_assert_int_eq(page_pool_take(&pool, 5, pages).code, STATUS_NO_SPACE);
    ck_assert_int_eq(pool.num_free, 4);
    ck_assert_int_eq(pages[0], -1);
    ck_assert_int_eq(page_pool_take(&pool, 4, pages).code, STATUS_OK);
    ck_assert_int_eq(pool.num_free, 0);
    for (int32_t i = 0; i < 4; i++)
        ck_assert_int_eq(pages[i], i);
    ck_assert_int_eq(page_pool_take(&pool, 0, pages).code, STATUS_OK);
    ck_assert_int_eq(page_pool_take(&pool, 1, pages).code, STATUS_NO_SPACE);
    page_pool_deinit(&pool);
}
END_TEST

START_TEST(given_pages_come_again_in_order)
{
    struct page_pool pool;
    int32_t pages[4], again[3] = {-1, -1, -1};

    ck_assert_int_eq(page_pool_init(&pool, 4).code, STATUS_OK);
    ck_assert_int_eq(page_pool_take(&pool, 4, pages).code, STATUS_OK);
    page_pool_give(&pool, 3, pages + 1);
    ck_assert_int_eq(page_pool_take(&pool, 3, again).code, STATUS_OK);
    for (int32_t i = 0; i < 3; i++)
        ck_assert_int_eq(again[i], i + 1);
    page_pool_deinit(&pool);
}
END_TEST

START_TEST(check_counts_each_free_page)
{
    struct page_pool pool;
    uint8_t marks[3] = {0};
    int32_t page = -1;

    ck_assert_int_eq(page_pool_init(&pool, 3).code, STATUS_OK);
    ck_assert_int_eq(page_pool_take(&pool, 1, &page).code, STATUS_OK);
    ck_assert_int_eq(page_pool_check(&pool, marks).code, STATUS_OK);
    ck_assert_int_eq(marks[page], 0);
    ck_assert_int_eq(marks[1] + marks[2], 2);
    pool.free[0] = 3;
    ck_assert_int_eq(page_pool_check(&pool, marks).code, STATUS_INVALID);
    pool.free[0] = -1;
    ck_assert_int_eq(page_pool_check(&pool, marks).code, STATUS_INVALID);
    pool.num_free = 4;
    ck_assert_int_eq(page_pool_check(&pool, marks).code, STATUS_INVALID);
    page_pool_deinit(&pool);
}
END_TEST

START_TEST(a_zero_is_released)
{
    struct page_pool pool = {0};

    ck_assert_int_eq(page_pool_init(&pool, 0).code, STATUS_INVALID);
    page_pool_deinit(&pool);
    page_pool_deinit(&pool);
}
END_TEST

CHECK_MAIN("page_pool", take_is_all_or_none, given_pages_come_again_in_order,
           check_counts_each_free_page, a_zero_is_released)
