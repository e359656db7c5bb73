/*
 * bench_encode.c - bytes a second from text to ids, one thread, one encoder.
 *
 *   bench_encode TOKENIZER.JSON TEXT PIECE [IDS]
 *
 * Encodes the file TEXT in pieces of PIECE bytes (0: whole; cut at characters), again and again for
 * a second, the first round included. Prints the best round in MB/s, the load time in ms and the
 * peak of resident memory after the load in MB; writes the ids of one round to IDS. bench_encode.py
 * puts the `tokenizers` package beside it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/file.h"
#include "tokenizer_proc/tokenizer.h"

enum { MIN_NS = 1000000000 };

static struct status encode_once(struct encoder *encoder, const char *text, size_t size,
                                 size_t piece, struct token_list *ids)
{
    struct status status = status_ok();

    ids->num_ids = 0;
    for (size_t start = 0, end; start < size && !status.code; start = end) {
        end = piece && size - start > piece ? start + piece : size;
        while (end < size && ((unsigned char)text[end] & 0xC0) == 0x80)
            end++;
        struct encode_args args = {
            .text = text + start, .size = end - start, .parse_special = true};
        status = encoder_encode(encoder, &args, ids);
    }
    return status;
}

/* Of this program alone: ru_maxrss would count what its parent had at the fork. */
static double peak_resident_mb(void)
{
    char line[256];
    double kb = 0;
    FILE *file = fopen("/proc/self/status", "r");

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtod(line + 6, NULL);
    }
    fclose(file);
    return kb / 1024;
}

static void write_ids(const char *path, const struct token_list *ids)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return;
    fwrite(ids->ids, sizeof(*ids->ids), ids->num_ids, file);
    fclose(file);
}

int main(int argc, char **argv)
{
    struct file_map json = {0}, text = {0};
    struct tokenizer *tokenizer = NULL;
    struct encoder *encoder = NULL;
    struct token_list ids = {0};

    if (argc < 4) {
        fprintf(stderr, "usage: bench_encode TOKENIZER.JSON TEXT PIECE [IDS]\n");
        return 2;
    }
    int64_t start = clock_now_ns();
    struct status status = file_map_open(&json, argv[1]);
    if (!status.code)
        status = tokenizer_load(json.data, json.size, &tokenizer);
    file_map_close(&json);
    double load_ms = (double)(clock_now_ns() - start) / 1e6;
    double resident = peak_resident_mb();
    if (!status.code)
        status = file_map_open(&text, argv[2]);
    if (!status.code)
        status = encoder_create(tokenizer, &encoder);
    int64_t began = clock_now_ns(), best = INT64_MAX, first = 0;
    do {
        start = clock_now_ns();
        if (!status.code)
            status = encode_once(encoder, text.data, text.size, strtoull(argv[3], NULL, 10), &ids);
        int64_t took = clock_now_ns() - start;
        best = took < best ? took : best;
        first = first ? first : took;
    } while (!status.code && clock_now_ns() - began < MIN_NS);
    if (status.code)
        fprintf(stderr, "bench_encode: %s\n", status.msg);
    else
        printf("%.1f %.1f %.1f %.1f\n", (double)text.size * 1e3 / (double)best,
               (double)text.size * 1e3 / (double)first, load_ms, resident);
    if (!status.code && argc > 4)
        write_ids(argv[4], &ids);
    token_list_deinit(&ids);
    encoder_destroy(&encoder);
    tokenizer_destroy(&tokenizer);
    file_map_close(&text);
    return status.code ? 1 : 0;
}
