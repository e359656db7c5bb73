/*
 * test_algo_cache.c - the file that keeps which algorithm serves which linear layer.
 */
#include "kernels/cuda/algo_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/unit/check_main.h"

enum { NUM = 3, VERSION = 130100 };

static char folder[64];
static char path[256];

static void begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_algo_cache.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(path, sizeof(path), "%s/minisgl/linear-A-card--of-two-130100.txt", folder);
}

static void end(void)
{
    char parent[128];

    snprintf(parent, sizeof(parent), "%s/minisgl", folder);
    unlink(path);
    rmdir(parent);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else was left behind */
}

static struct algo_entry entry_of(int i)
{
    struct algo_entry entry = {.n = 4096 + i,
                               .k = 1024,
                               .bucket = 1 + i,
                               .alignment = 256,
                               .dtype = 1,
                               .y_dtype = i % 2,
                               .accumulate = 1 - i % 2,
                               .has_bias = i == 2,
                               .is_gated = i == 1,
                               .own = i};

    for (int word = 0; word < ALGO_WORDS; word++)
        entry.algo[word] = UINT64_C(0xFEDCBA9876543210) * (uint64_t)(word + i);
    return entry;
}

static void save(void)
{
    struct algo_entry entries[NUM];

    for (int i = 0; i < NUM; i++)
        entries[i] = entry_of(i);
    ck_assert(algo_cache_save("A card, of two", VERSION, entries, NUM));
}

static int load(const char *card, int version, int max)
{
    struct algo_entry entries[NUM];
    int num = algo_cache_load(card, version, entries, max);

    for (int i = 0; i < num; i++) {
        struct algo_entry want = entry_of(i);
        /* Between the two lie bytes of no field. */
        ck_assert_mem_eq(&entries[i], &want, offsetof(struct algo_entry, own) + sizeof(want.own));
        ck_assert_mem_eq(entries[i].algo, want.algo, sizeof(want.algo));
    }
    return num;
}

START_TEST(what_is_saved_is_loaded)
{
    begin();
    ck_assert_int_eq(load("A card, of two", VERSION, NUM), 0);
    save();
    ck_assert_int_eq(load("A card, of two", VERSION, NUM), NUM);
    save();
    ck_assert_int_eq(load("A card, of two", VERSION, NUM), NUM);
    end();
}
END_TEST

START_TEST(another_card_or_version_has_none)
{
    begin();
    save();
    ck_assert_int_eq(load("A card, of two", VERSION + 1, NUM), 0);
    ck_assert_int_eq(load("A card", VERSION, NUM), 0);
    /* The same file's name, and another card in it. */
    ck_assert_int_eq(load("A card. of two", VERSION, NUM), 0);
    ck_assert_int_eq(load("A card/ of two", VERSION, NUM), 0);
    end();
}
END_TEST

START_TEST(a_damaged_file_has_none)
{
    char *text = NULL;
    size_t size = 0;

    begin();
    save();
    ck_assert_int_eq(file_read(path, 1 << 20, &text, &size).code, STATUS_OK);
    for (size_t cut = 0; cut <= size; cut++) { /* cut off, then with a byte that belongs nowhere */
        for (int damage = 0; damage < 2; damage++) {
            FILE *file = fopen(path, "w");
            ck_assert_ptr_nonnull(file);
            ck_assert_uint_eq(fwrite(text, 1, cut, file), cut);
            if (damage && cut < size) {
                fputc('?', file);
                fwrite(text + cut + 1, 1, size - cut - 1, file);
            }
            ck_assert_int_eq(fclose(file), 0);
            ck_assert_int_eq(load("A card, of two", VERSION, NUM), cut == size ? NUM : 0);
        }
    }
    free(text);
    end();
}
END_TEST

START_TEST(no_place_is_no_error)
{
    struct algo_entry entry = entry_of(0);

    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    ck_assert(!algo_cache_save("card", VERSION, &entry, 1));
    ck_assert_int_eq(load("card", VERSION, NUM), 0);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ck_assert(!algo_cache_save("card", VERSION, &entry, 1));
    ck_assert_int_eq(load("card", VERSION, NUM), 0);
}
END_TEST

CHECK_MAIN("algo_cache", what_is_saved_is_loaded, another_card_or_version_has_none,
           a_damaged_file_has_none, no_place_is_no_error)
