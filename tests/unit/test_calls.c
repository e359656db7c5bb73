/* test_calls.c - calls by number and by rid. */
#include "tools/client/calls.h"

#include <string.h>

#include "tests/unit/check_main.h"

static struct call_table table;

static uint64_t take(void *user)
{
    struct call *call = NULL;

    ck_assert_int_eq(call_table_take(&table, user, &call).code, STATUS_OK);
    return call->number;
}

static struct call *find_text(const char *text)
{
    return call_table_find_rid(&table, (struct bytes){(const uint8_t *)text, strlen(text)});
}

START_TEST(rid_finds_its_call)
{
    static char users[100];
    uint64_t numbers[100];

    call_table_init(&table);
    for (int i = 0; i < 100; i++)
        numbers[i] = take(&users[i]);
    for (int i = 0; i < 100; i++) {
        char text[CALL_RID_BYTES];
        struct call *call = call_table_find_rid(&table, call_rid(numbers[i], text));
        ck_assert_ptr_nonnull(call);
        ck_assert_ptr_eq(call->user, &users[i]);
        ck_assert_ptr_eq(call_table_find(&table, numbers[i]), call);
    }
    ck_assert_uint_eq(table.num_open, 100);
    call_table_deinit(&table);
}
END_TEST

START_TEST(slot_again_is_another_call)
{
    call_table_init(&table);
    uint64_t first = take(NULL);
    ck_assert_uint_ne(first, 0);
    call_table_give(&table, call_table_find(&table, first));
    ck_assert_ptr_null(call_table_find(&table, first));
    uint64_t second = take(NULL);
    ck_assert_uint_eq(table.num_calls, 1);
    ck_assert_ptr_null(call_table_find(&table, first));
    ck_assert_ptr_nonnull(call_table_find(&table, second));
    call_table_deinit(&table);
}
END_TEST

START_TEST(what_is_no_rid_finds_nothing)
{
    static const char *const texts[] = {"",    "0",    "-",   "0-",    "-1",           "0-1x",
                                        "a-1", "0--1", "1-1", "0-1-1", "99999999999-1"};

    call_table_init(&table);
    take(NULL);
    ck_assert_ptr_nonnull(find_text("0-1"));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_ptr_null(find_text(texts[i]));
    call_table_deinit(&table);
}
END_TEST

START_TEST(open_calls_can_be_walked_whatever_was_given_back)
{
    uint64_t numbers[10];

    call_table_init(&table);
    for (int i = 0; i < 10; i++)
        numbers[i] = take(NULL);
    for (int i = 0; i < 10; i += 3)
        call_table_give(&table, call_table_find(&table, numbers[i]));
    for (int left = 6; left > 0; left--) {
        ck_assert_uint_eq(table.num_open, (size_t)left);
        call_table_give(&table, call_table_first_open(&table));
    }
    ck_assert_ptr_null(call_table_first_open(&table));
    call_table_deinit(&table);
}
END_TEST

CHECK_MAIN("calls", rid_finds_its_call, slot_again_is_another_call, what_is_no_rid_finds_nothing,
           open_calls_can_be_walked_whatever_was_given_back)
