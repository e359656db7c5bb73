/*
 * golden_file.h - reads golden.jsonl: prompts with the answers of Hugging Face transformers.
 */
#ifndef TESTS_UNIT_GOLDEN_FILE_H
#define TESTS_UNIT_GOLDEN_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/json.h"
#include "tests/unit/check_status.h"

struct golden_row {
    const int32_t *input_ids, *output_ids;
    int32_t num_input, num_output;
    int32_t
        num_sure; /* outputs before the first near tie: another order of sums may differ there */
    const int32_t *top_ids;
    const double *top_logits;
    int32_t num_top;
};

struct golden {
    struct arena arena;
    struct golden_row *rows;
    int32_t num_rows;
};

static inline int32_t *golden_ids(struct arena *arena, const struct json_value *list,
                                  int32_t *out_count)
{
    int32_t *ids = arena_alloc(arena, list->num_items * sizeof(int32_t));

    for (size_t i = 0; i < list->num_items; i++)
        ids[i] = (int32_t)list->items[i].integer;
    *out_count = (int32_t)list->num_items;
    return ids;
}

static inline void golden_open(struct golden *golden, const char *dir)
{
    char path[2048];
    char *text = NULL;
    size_t size = 0;

    arena_init(&golden->arena, 0, 0);
    golden->rows = arena_calloc(&golden->arena, 64, sizeof(struct golden_row));
    golden->num_rows = 0;
    snprintf(path, sizeof(path), "%s/golden.jsonl", dir);
    ck_assert_ok(file_read(path, 64 << 20, &text, &size));
    char *copy = arena_copy(&golden->arena, text, size);
    free(text);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        struct json_value *value = NULL;
        struct golden_row *row = &golden->rows[golden->num_rows++];
        ck_assert_ok(json_parse(line, strlen(line), &golden->arena, &value));
        row->input_ids = golden_ids(&golden->arena, json_get(value, "input_ids"), &row->num_input);
        row->output_ids =
            golden_ids(&golden->arena, json_get(value, "output_ids"), &row->num_output);
        row->top_ids = golden_ids(&golden->arena, json_get(value, "logits_top_ids"), &row->num_top);
        double *logits = arena_alloc(&golden->arena, (size_t)row->num_top * sizeof(double));
        for (int32_t i = 0; i < row->num_top; i++)
            logits[i] = json_get(value, "logits_top")->items[i].number;
        row->top_logits = logits;
        row->num_sure = json_get(value, "min_margin")->number < 1e-3
                            ? (int32_t)json_get(value, "min_margin_at")->integer
                            : row->num_output;
    }
}

static inline void golden_close(struct golden *golden)
{
    arena_deinit(&golden->arena);
}

#endif
