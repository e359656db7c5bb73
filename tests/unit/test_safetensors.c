/* test_safetensors.c - safetensors files: what is read, and every way in which one can be wrong. */
#include "scheduler_proc/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/check_status.h"

static uint8_t bytes[1 << 16];

/* A file of that header and data_size bytes of data; its size. */
static size_t make(const char *header, size_t data_size)
{
    size_t header_size = strlen(header);

    memset(bytes, 0, sizeof(bytes));
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)header_size >> (8 * i));
    memcpy(bytes + 8, header, header_size);
    return 8 + header_size + data_size;
}

#define A "\"a\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}"
#define B "\"b\": {\"dtype\": \"BF16\", \"shape\": [4], \"data_offsets\": [24, 32]}"

START_TEST(tensors_are_found_by_name)
{
    struct safetensors file;
    size_t size = make("{\"__metadata__\": {\"format\": \"pt\"}, " B ", " A "}", 32);

    ck_assert_ok(safetensors_parse(&file, bytes, size));
    ck_assert_int_eq((int)file.num_tensors, 2);
    const struct tensor *a = safetensors_find(&file, "a"), *b = safetensors_find(&file, "b");
    ck_assert(a && b && !safetensors_find(&file, "c"));
    ck_assert_int_eq(a->num_dims, 2);
    ck_assert_int_eq((int)a->shape[1], 3);
    ck_assert_int_eq((int)b->dtype, DTYPE_BF16);
    ck_assert_ptr_eq(b->data, bytes + size - 8);
    safetensors_close(&file);
}
END_TEST

/* A file may hold what nobody here asks for; only its place is checked. */
START_TEST(types_of_tomorrow_are_listed)
{
    struct safetensors file;
    size_t size = make("{" A ", \"q\": {\"dtype\": \"F4\", \"shape\": [9, 2], "
                       "\"data_offsets\": [24, 33]}}",
                       33);

    ck_assert_ok(safetensors_parse(&file, bytes, size));
    const struct tensor *q = safetensors_find(&file, "q");
    ck_assert_ptr_nonnull(q);
    ck_assert(!q->is_float);
    ck_assert_str_eq(q->type, "F4");
    ck_assert_str_eq(safetensors_find(&file, "a")->type, "F32");
    safetensors_close(&file);
}
END_TEST

START_TEST(cut_at_every_byte)
{
    struct safetensors file;
    size_t size = make("{" A ", " B "}", 32);

    for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(safetensors_parse(&file, bytes, i).code, STATUS_FORMAT);
}
END_TEST

static const struct {
    const char *header;
    size_t data_size;
    const char *names;
} wrong[] = {
    {"{}", 0, "no tensor"},
    {"[]", 0, "object"},
    {"{" A "}", 23, "ends at byte 24"},
    {"{" A "}", 25, "behind the last"},
    {"{" B "}", 32, "gap"},
    {"{" A ", \"c\": {\"dtype\": \"F32\", \"shape\": [6], \"data_offsets\": [0, 24]}}", 24,
     "overlaps"},
    {"{" A ", " A "}", 24, "overlaps"},
    {"{\"e\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}, "
     "\"e\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}}",
     0, "twice"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [7], \"data_offsets\": [0, 24]}}", 24, "shape"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296, 4], "
     "\"data_offsets\": [0, 0]}}",
     0, "shape"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 24]}}", 24, "a"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [6], \"data_offsets\": [24, 0]}}", 24, "a"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [6], \"data_offsets\": [0]}}", 24, "a"},
    {"{\"a\": {\"dtype\": \"\", \"shape\": [6], \"data_offsets\": [0, 24]}}", 24, "a"},
    {"{\"a\": {\"dtype\": 7, \"shape\": [6], \"data_offsets\": [0, 24]}}", 24, "a"},
    {"{\"a\": {\"shape\": [6], \"data_offsets\": [0, 24]}}", 24, "a"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [6]}}", 24, "a"},
    {"{\"a\": 7}", 0, "a"},
    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,6], \"data_offsets\": [0, 24]}}", 24,
     "a"},
};

START_TEST(what_is_wrong_is_named)
{
    struct safetensors file;
    size_t size = make(wrong[_i].header, wrong[_i].data_size);

    ck_assert_fails(safetensors_parse(&file, bytes, size), STATUS_FORMAT, wrong[_i].names);
}
END_TEST

START_TEST(a_header_larger_than_its_file)
{
    struct safetensors file;

    memset(bytes, 0xFF, 8);
    ck_assert_fails(safetensors_parse(&file, bytes, 100), STATUS_FORMAT, "header of");
}
END_TEST

START_TEST(a_git_lfs_pointer_is_recognised)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:0123\nsize 1234\n";
    struct safetensors file;

    ck_assert_fails(safetensors_parse(&file, pointer, sizeof(pointer) - 1), STATUS_FORMAT,
                    "Git LFS");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("safetensors");

    tcase_add_test(tcase, tensors_are_found_by_name);
    tcase_add_test(tcase, types_of_tomorrow_are_listed);
    tcase_add_test(tcase, cut_at_every_byte);
    tcase_add_loop_test(tcase, what_is_wrong_is_named, 0, sizeof(wrong) / sizeof(wrong[0]));
    tcase_add_test(tcase, a_header_larger_than_its_file);
    tcase_add_test(tcase, a_git_lfs_pointer_is_recognised);
    return check_run_case("safetensors", tcase);
}
