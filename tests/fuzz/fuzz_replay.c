/*
 * fuzz_replay.c - logs from anybody: whatever the bytes say, the core's invariants hold at the end
 * or the log is refused. A log whose pool would need much memory is not tried.
 */
#include <stdint.h>
#include <stdlib.h>

#include "scheduler_proc/record.h"

enum { HEAD_INTS = 10, MAX_VALUE = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct replay_result result;

    /* The head behind the magic: int32 little-endian, each at most MAX_VALUE. */
    for (size_t i = 0; i < HEAD_INTS && 8 + 4 * i + 4 <= size; i++)
        if (data[8 + 4 * i + 3] || data[8 + 4 * i + 2] || data[8 + 4 * i + 1] > MAX_VALUE / 256)
            return 0;
    struct status status = replay_run(data, size, &result);
    (void)status; /* refused or not: what it has done must be right */
    if (result.is_broken)
        abort();
    return 0;
}
