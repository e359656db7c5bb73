/*
 * test_rope.c - rotary frequencies against their definitions; the golden tests compare them with
 * transformers'.
 */
#include "scheduler_proc/rope.h"

#include <math.h>

#include "tests/unit/check_main.h"

enum { DIM = 16 };

static const struct rope_config plain = {.theta = 10000, .attention_factor = 1};

START_TEST(default_frequencies)
{
    float inv_freq[DIM / 2], table[4 * DIM];

    rope_inv_freq(&plain, DIM, inv_freq);
    for (int i = 0; i < DIM / 2; i++)
        ck_assert_double_eq_tol((double)inv_freq[i], pow(10000, -2.0 * i / DIM), 1e-7);
    rope_fill(&plain, DIM, 4, table);
    ck_assert_double_eq((double)table[0], 1); /* position 0: cos 1, sin 0 */
    ck_assert_double_eq((double)table[DIM / 2], 0);
    ck_assert_double_eq_tol((double)table[3 * DIM], cos(3), 1e-6);
    ck_assert_double_eq_tol((double)table[3 * DIM + DIM / 2], sin(3), 1e-6);
}
END_TEST

START_TEST(llama3_stretches_the_slow_ones)
{
    const struct rope_config rope = {.type = ROPE_LLAMA3,
                                     .theta = 10000,
                                     .factor = 8,
                                     .low_freq_factor = 1,
                                     .high_freq_factor = 4,
                                     .original_max_position = 64,
                                     .attention_factor = 1};
    float before[DIM / 2], after[DIM / 2];

    rope_inv_freq(&plain, DIM, before);
    rope_inv_freq(&rope, DIM, after);
    ck_assert_double_eq((double)after[0], (double)before[0]); /* wavelength 6.3 < 64 / 4 */
    for (int i = 0; i < DIM / 2; i++) {
        double wavelength = 2 * 3.14159265358979 / (double)before[i];
        double smooth = fmin(fmax((64 / wavelength - 1) / 3, 0), 1);
        ck_assert_double_eq_tol((double)after[i], (double)before[i] * ((1 - smooth) / 8 + smooth),
                                1e-7);
    }
    ck_assert_double_eq_tol((double)after[DIM / 2 - 1], (double)before[DIM / 2 - 1] / 8, 1e-9);
}
END_TEST

START_TEST(yarn_ramps_and_scales)
{
    const struct rope_config rope = {.type = ROPE_YARN,
                                     .theta = 10000,
                                     .factor = 4,
                                     .beta_fast = 32,
                                     .beta_slow = 1,
                                     .truncate = true,
                                     .original_max_position = 64,
                                     .attention_factor = 1.25};
    float before[DIM / 2], after[DIM / 2], table[2 * DIM];

    rope_inv_freq(&plain, DIM, before);
    rope_inv_freq(&rope, DIM, after);
    ck_assert_double_eq((double)after[0], (double)before[0]);
    for (int i = 1; i < DIM / 2; i++) {
        ck_assert_double_le((double)after[i], (double)before[i]);
        ck_assert_double_ge((double)after[i], (double)before[i] / 4 * (1 - 1e-6));
    }
    ck_assert_double_eq_tol((double)after[DIM / 2 - 1], (double)before[DIM / 2 - 1] / 4, 1e-9);
    rope_fill(&rope, DIM, 2, table);
    ck_assert_double_eq((double)table[0], 1.25);
}
END_TEST

CHECK_MAIN("rope", default_frequencies, llama3_stretches_the_slow_ones, yarn_ramps_and_scales)
