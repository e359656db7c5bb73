/* test_status.c - messages of statuses. */
#include "common/status.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/check_main.h"

START_TEST(context_goes_before_the_message)
{
    struct status status = status_error(STATUS_FORMAT, "header cut at %d bytes", 3);

    status = status_context(status, "model.safetensors");
    ck_assert_int_eq(status.code, STATUS_FORMAT);
    ck_assert_str_eq(status.msg, "model.safetensors: header cut at 3 bytes");
    ck_assert_int_eq(status_context(status_ok(), "x").code, STATUS_OK);
}
END_TEST

START_TEST(of_a_long_path_the_end_is_kept_and_the_reason)
{
    char path[600] = "";

    for (int i = 0; i < 40; i++)
        strcat(path, "/caf\xC3\xA9/models");
    strcat(path, "/tokenizer.json");
    struct status status = status_errno(ENOENT, path);
    ck_assert_int_eq(strncmp(status.msg, "...", 3), 0);
    ck_assert_ptr_nonnull(strstr(status.msg, "models/tokenizer.json: No such file"));
    ck_assert_int_ne((unsigned char)status.msg[3] & 0xC0, 0x80);
    status = status_context(status_error(STATUS_FORMAT, "cut at byte 7"), path);
    ck_assert_ptr_nonnull(strstr(status.msg, "models/tokenizer.json: cut at byte 7"));
}
END_TEST

START_TEST(long_messages_end_at_a_character)
{
    char text[400] = "x";

    for (int i = 0; i < 100; i++)
        strcat(text, "\xE4\xB8\x96");
    struct status status = status_error(STATUS_INVALID, "%s", text);
    size_t size = strlen(status.msg);
    ck_assert_int_eq((int)((size - 1) % 3), 0);
    ck_assert_uint_ge(size, 246);
}
END_TEST

START_TEST(errno_has_its_own_codes)
{
    ck_assert_int_eq(status_errno(ENOENT, "f").code, STATUS_NOT_FOUND);
    ck_assert_int_eq(status_errno(EACCES, "f").code, STATUS_IO);
    ck_assert_str_eq(status_name(STATUS_GONE), "gone");
}
END_TEST

CHECK_MAIN("status", context_goes_before_the_message, of_a_long_path_the_end_is_kept_and_the_reason,
           long_messages_end_at_a_character, errno_has_its_own_codes)
