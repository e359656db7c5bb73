/* test_key_table.c - keys of 16 bytes to pointers. */
#include "detokenizer_proc/key_table.h"

#include "tests/unit/check_main.h"

static struct key_table table;
static char values[1000];

START_TEST(found_until_removed)
{
    const struct key a = key_of_uid(7), b = {.high = 7, .low = 0};

    ck_assert_ptr_null(key_table_find(&table, a));
    key_table_remove(&table, a);
    ck_assert_int_eq(key_table_insert(&table, a, &values[0]).code, STATUS_OK);
    ck_assert_int_eq(key_table_insert(&table, b, &values[1]).code, STATUS_OK);
    ck_assert_ptr_eq(key_table_find(&table, a), &values[0]);
    ck_assert_ptr_eq(key_table_find(&table, b), &values[1]);
    key_table_remove(&table, a);
    ck_assert_ptr_null(key_table_find(&table, a));
    ck_assert_ptr_eq(key_table_find(&table, b), &values[1]);
    key_table_deinit(&table);
}
END_TEST

/* Uids as they are given: tokenizer instance << 48 | counter; removed in any order. */
START_TEST(random_traffic)
{
    uint32_t random = 3;

    for (int round = 0; round < 100000; round++) {
        random = random * 1664525 + 1013904223;
        uint32_t i = (random >> 8) % 1000;
        struct key key = key_of_uid((uint64_t)(i % 3) << 48 | i);
        bool is_there = key_table_find(&table, key) != NULL;
        ck_assert_int_eq(is_there, values[i]);
        if (is_there)
            key_table_remove(&table, key);
        else
            ck_assert_int_eq(key_table_insert(&table, key, &values[i]).code, STATUS_OK);
        values[i] = !is_there;
        if (round % 1000 == 0)
            key_table_check(&table);
    }
    key_table_deinit(&table);
}
END_TEST

CHECK_MAIN("key_table", found_until_removed, random_traffic)
