/*
 * fuzz_jinja.c - a template and its context from anybody: "TEMPLATE\0JSON".
 *
 * Whatever comes, the rendering ends, and its text is UTF-8 with ranges that are sorted, apart and
 * inside of it. Seeds: corpus/jinja, words: jinja.dict.
 */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "tokenizer_proc/jinja.h"
#include "tokenizer_proc/jinja_string.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_output(const struct jinja_output *output)
{
    size_t end = 0;

    require(utf8_is_valid(output->text, output->size));
    require(output->text[output->size] == '\0');
    for (size_t i = 0; i < output->num_ranges; i++) {
        require(output->ranges[i].start >= end + (i > 0));
        require(output->ranges[i].end > output->ranges[i].start);
        end = output->ranges[i].end;
    }
    require(end <= output->size);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    const char *source = (const char *)data;
    const char *nul = size ? memchr(source, '\0', size) : NULL;
    size_t source_size = nul ? (size_t)(nul - source) : size;
    struct jinja_template *template = NULL;
    struct json_value *context = NULL;
    struct arena arena;
    struct jinja_output output = {0};
    struct jinja_args args = {
        .limits = {.max_steps = 100000, .max_memory = 1 << 19, .max_output = 1 << 20}};

    arena_init(&arena, 0, 0);
    struct status status = jinja_parse_time("2025-01-15T12:34:56", 19, &args.now);
    require(!status.code);
    if (nul)
        status = json_parse(nul + 1, size - source_size - 1, &arena, &context);
    if (!status.code && context && context->type == JSON_OBJECT)
        args.context = context;
    status = jinja_compile(source, source_size, &template);
    if (!status.code)
        status = jinja_render(template, &args, &arena, &output);
    if (!status.code)
        check_output(&output);
    jinja_destroy(&template);
    arena_deinit(&arena);
    return 0;
}
