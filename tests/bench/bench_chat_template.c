/*
 * bench_chat_template.c - microseconds to render chats of 1 to 100 turns with a model's template.
 *
 *     bench_chat_template tests/data/golden/templates/qwen3.jinja
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tokenizer_proc/chat_template.h"

/* A chat of so many turns, each of some 600 bytes, as JSON. */
static char *make_chat(int num_turns)
{
    static const char sentence[] = "The quick brown fox jumps over the lazy dog, again and again. ";
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        exit(1);
    fprintf(out, "[{\"role\": \"system\", \"content\": \"Be brief.\"}");
    for (int i = 0; i < num_turns; i++) {
        fprintf(out, ",{\"role\": \"%s\", \"content\": \"", i % 2 ? "assistant" : "user");
        for (int k = 0; k < 10; k++)
            fprintf(out, "%s", sentence);
        fprintf(out, "\"}");
    }
    fprintf(out, "]");
    if (fclose(out) != 0)
        exit(1);
    return text;
}

static void measure(const struct chat_template *template, int num_turns)
{
    enum { ROUNDS = 300 };
    char *json = make_chat(num_turns);
    struct arena data, scratch;
    struct json_value *messages = NULL;
    struct chat_text out = {0};
    int64_t best = INT64_MAX;

    arena_init(&data, 0, 0);
    arena_init(&scratch, 0, 0);
    struct status status = json_parse(json, strlen(json), &data, &messages);
    for (int i = 0; i < ROUNDS && !status.code; i++) {
        struct chat_args args = {.messages = messages, .add_generation_prompt = true};
        arena_reset(&scratch);
        int64_t start = clock_now_ns();
        status = chat_template_render(template, &args, &scratch, &out);
        int64_t took = clock_now_ns() - start;
        best = took < best ? took : best;
    }
    if (status.code)
        printf("%4d turns: %s\n", num_turns, status.msg);
    else
        printf("%4d turns: %8.1f us, %zu bytes of text, %zu bytes of memory\n", num_turns,
               (double)best / 1000.0, out.size, scratch.total_size);
    arena_deinit(&scratch);
    arena_deinit(&data);
    free(json);
}

int main(int argc, char **argv)
{
    struct chat_template *template = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: bench_chat_template TEMPLATE.jinja\n");
        return 2;
    }
    struct status status = chat_template_open_file(argv[1], NULL, &template);
    if (status.code) {
        fprintf(stderr, "bench_chat_template: %s\n", status.msg);
        return 1;
    }
    measure(template, 1);
    measure(template, 20);
    measure(template, 100);
    chat_template_destroy(&template);
    return 0;
}
