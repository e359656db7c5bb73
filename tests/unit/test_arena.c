/* test_arena.c - bump allocation, growth, bounds and reset. */
#include "common/arena.h"

#include <stdint.h>
#include <string.h>

#include "tests/unit/check_main.h"

START_TEST(allocations_are_apart_and_aligned)
{
    struct arena arena;
    unsigned char *all[100];

    arena_init(&arena, 256, 0);
    for (size_t i = 0; i < 100; i++) {
        all[i] = arena_alloc(&arena, i + 1);
        ck_assert_ptr_nonnull(all[i]);
        ck_assert_int_eq((int)((uintptr_t)all[i] % _Alignof(max_align_t)), 0);
        memset(all[i], (int)i, i + 1);
    }
    for (size_t i = 0; i < 100; i++)
        for (size_t j = 0; j <= i; j++)
            ck_assert_int_eq(all[i][j], (int)i);
    arena_deinit(&arena);
}
END_TEST

START_TEST(reset_keeps_the_memory)
{
    struct arena arena;

    arena_init(&arena, 1024, 0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 50; i++)
            ck_assert_ptr_nonnull(arena_alloc(&arena, 100));
        arena_reset(&arena);
    }
    ck_assert_uint_le(arena.total_size, 8192);
    arena_deinit(&arena);
}
END_TEST

START_TEST(blocks_grow_with_what_is_asked_for)
{
    struct arena arena;
    char *last = NULL;
    int num_jumps = 0;

    arena_init(&arena, 64, 0);
    for (int i = 0; i < 100000; i++) {
        char *next = arena_alloc(&arena, 16);
        ck_assert_ptr_nonnull(next);
        num_jumps += next != last + 16;
        last = next;
    }
    ck_assert_int_lt(num_jumps, 80);
    ck_assert_uint_lt(arena.total_size, 100000 * 16 * 5 / 4 + 4096);
    arena_deinit(&arena);
}
END_TEST

START_TEST(bound_and_overflow_say_null)
{
    struct arena arena;

    arena_init(&arena, 64, 1000);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 500));
    ck_assert_ptr_null(arena_alloc(&arena, 600));
    ck_assert_ptr_nonnull(arena_alloc(&arena, 100));
    ck_assert_ptr_null(arena_calloc(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX - 3));
    arena_deinit(&arena);
}
END_TEST

CHECK_MAIN("arena", allocations_are_apart_and_aligned, reset_keeps_the_memory,
           blocks_grow_with_what_is_asked_for, bound_and_overflow_say_null)
