/*
 * test_weights.c - directories of weights: single, sharded, with strays, with a file missing;
 * dummies; formats.
 */
#include "scheduler_proc/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/element.h"
#include "tests/unit/check_main.h"
#include "tests/unit/check_status.h"

static char dir[64];

static void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/minisgl-weights-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const void *data, size_t size)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* One float32 vector of two elements, of that name and value. */
static void write_weights(const char *file, const char *name, float value)
{
    char header[256];
    uint8_t bytes[512] = {0};
    float values[2] = {value, value};
    size_t size = (size_t)snprintf(header, sizeof(header),
                                   "{\"%s\": {\"dtype\": \"F32\", \"shape\": [2], "
                                   "\"data_offsets\": [0, 8]}}",
                                   name);

    bytes[0] = (uint8_t)size;
    memcpy(bytes + 8, header, size);
    memcpy(bytes + 8 + size, values, sizeof(values));
    write_file(file, bytes, 8 + size + sizeof(values));
}

static float first_of(struct weights *weights, const char *name)
{
    struct weight_view view;
    float value;

    ck_assert_ok(weights_get(weights, name, 2, 0, &view));
    memcpy(&value, view.data, sizeof(value)); /* it stands where the file has it */
    return value;
}

static const char index_of_two[] = "{\"weight_map\": {\"a\": \"one.safetensors\", "
                                   "\"b\": \"two.safetensors\"}}";

START_TEST(a_single_file)
{
    struct weights weights;
    struct weight_view view;
    const char *first;

    write_weights("model.safetensors", "a", 1);
    ck_assert_ok(weights_open(&weights, dir));
    ck_assert_str_eq(weights.warning, "");
    ck_assert_uint_eq(weights_num_unused(&weights, &first), 1);
    ck_assert_str_eq(first, "a");
    ck_assert_double_eq((double)first_of(&weights, "a"), 1);
    ck_assert_uint_eq(weights_num_unused(&weights, &first), 0);
    ck_assert_fails(weights_get(&weights, "b", 2, 0, &view), STATUS_NOT_FOUND, "tensor b");
    ck_assert_fails(weights_get(&weights, "a", 3, 0, &view), STATUS_INVALID, "tensor a");
    ck_assert_fails(weights_get(&weights, "a", 2, 1, &view), STATUS_INVALID, "tensor a");
    weights_close(&weights);
}
END_TEST

/* The header's size decides where the values stand; they are read where they are. */
START_TEST(an_unaligned_tensor_is_not_copied)
{
    struct weights weights;
    struct weight_view view;
    bool was_unaligned = false;

    for (size_t i = 1; i <= 4; i++) {
        write_weights("model.safetensors", &"name"[4 - i], 1.5f);
        ck_assert_ok(weights_open(&weights, dir));
        ck_assert_ok(weights_get(&weights, &"name"[4 - i], 2, 0, &view));
        ck_assert_ptr_eq(view.data, weights.entries[0].tensor->data);
        ck_assert_double_eq((double)element_load(view.data, view.dtype, 1), 1.5);
        was_unaligned |= (uintptr_t)view.data % 4 != 0;
        weights_close(&weights);
    }
    ck_assert(was_unaligned);
}
END_TEST

START_TEST(an_unknown_type_is_named_when_asked_for)
{
    static const char file[] = "\x41\0\0\0\0\0\0\0{\"a\": {\"dtype\": \"F8_E8M0\", \"shape\": "
                               "[2], \"data_offsets\": [0, 2]}}\1\2";
    struct weights weights;
    struct weight_view view;

    write_file("model.safetensors", file, sizeof(file) - 1);
    ck_assert_ok(weights_open(&weights, dir));
    ck_assert_fails(weights_get(&weights, "a", 2, 0, &view), STATUS_UNSUPPORTED, "F8_E8M0");
    weights_close(&weights);
}
END_TEST

START_TEST(the_index_decides)
{
    struct weights weights;

    write_weights("one.safetensors", "a", 1);
    write_weights("two.safetensors", "b", 2);
    write_weights("model.safetensors", "a", 7); /* stray: an old single file */
    write_file("model.safetensors.index.json", index_of_two, sizeof(index_of_two) - 1);
    ck_assert_ok(weights_open(&weights, dir));
    ck_assert_ptr_nonnull(strstr(weights.warning, "1 weight files"));
    ck_assert_double_eq((double)first_of(&weights, "a"), 1);
    ck_assert_double_eq((double)first_of(&weights, "b"), 2);
    weights_close(&weights);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    struct weights weights;

    ck_assert_fails(weights_open(&weights, dir), STATUS_NOT_FOUND, "model.safetensors");
    write_file("pytorch_model-00001-of-00002.bin", "", 0);
    ck_assert_fails(weights_open(&weights, dir), STATUS_UNSUPPORTED, "convert them");
    write_weights("one.safetensors", "a", 1);
    write_file("model.safetensors.index.json", index_of_two, sizeof(index_of_two) - 1);
    ck_assert_fails(weights_open(&weights, dir), STATUS_NOT_FOUND, "two.safetensors");
    write_weights("two.safetensors", "c", 1);
    ck_assert_fails(weights_open(&weights, dir), STATUS_FORMAT, "b is not in two.safetensors");
    write_file("two.safetensors", "version https://git-lfs.github.com/spec/v1", 42);
    ck_assert_fails(weights_open(&weights, dir), STATUS_FORMAT, "two.safetensors");
}
END_TEST

START_TEST(an_index_names_files_of_its_directory_only)
{
    static const char index[] = "{\"weight_map\": {\"a\": \"../a.safetensors\"}}";
    struct weights weights;

    write_file("model.safetensors.index.json", index, sizeof(index) - 1);
    ck_assert_fails(weights_open(&weights, dir), STATUS_FORMAT, "index.json");
    write_file("model.safetensors.index.json", "{}", 2);
    ck_assert_fails(weights_open(&weights, dir), STATUS_FORMAT, "weight_map");
}
END_TEST

START_TEST(dummies_are_random_and_norms_are_ones)
{
    struct weights weights;
    struct weight_view a, b, norm;
    float values[4096];
    double sum = 0, squares = 0;

    ck_assert_ok(weights_open_dummy(&weights, DTYPE_BF16, 4096));
    ck_assert_ok(weights_get(&weights, "x.q_proj.weight", 64, 64, &a));
    ck_assert_ok(weights_get(&weights, "y.q_proj.weight", 64, 64, &b));
    ck_assert_ok(weights_get(&weights, "x.norm.weight", 64, 0, &norm));
    ck_assert_ptr_ne(a.data, b.data);
    element_convert(values, DTYPE_F32, norm.data, norm.dtype, 64);
    ck_assert_double_eq((double)values[63], 1);
    element_convert(values, DTYPE_F32, a.data, a.dtype, 4096);
    for (int i = 0; i < 4096; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    ck_assert_double_eq_tol(sum / 4096, 0, 2e-3);
    ck_assert_double_eq_tol(sqrt(squares / 4096), 0.02, 1e-3);
    weights_close(&weights);
}
END_TEST

START_TEST(number_formats)
{
    /* Exact ones, a tie that goes to even, a subnormal float16, infinities, NaN. */
    const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00, 0x7E00, 0x8000};
    const double expected[] = {1, -2, 0x1p-24, 65504, (double)INFINITY, (double)NAN, -0.0};
    const float floats[] = {1.0F + 0x1p-8F, 1.0F + 0x3p-8F, NAN, -INFINITY};
    const uint16_t rounded[] = {0x3F80, 0x3F82, 0x7FC0, 0xFF80};
    float out[7];
    uint16_t bf16[4];

    element_convert(out, DTYPE_F32, halves, DTYPE_F16, 7);
    for (int i = 0; i < 7; i++)
        ck_assert(isnan(expected[i]) ? isnan(out[i]) : (double)out[i] == expected[i]);
    ck_assert(signbit(out[6]));
    element_convert(bf16, DTYPE_BF16, floats, DTYPE_F32, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(bf16[i], rounded[i]);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("weights");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_single_file);
    tcase_add_test(tcase, an_unaligned_tensor_is_not_copied);
    tcase_add_test(tcase, an_unknown_type_is_named_when_asked_for);
    tcase_add_test(tcase, the_index_decides);
    tcase_add_test(tcase, a_missing_file_is_named);
    tcase_add_test(tcase, an_index_names_files_of_its_directory_only);
    tcase_add_test(tcase, dummies_are_random_and_norms_are_ones);
    tcase_add_test(tcase, number_formats);
    return check_run_case("weights", tcase);
}
