/* filter_chat.c - see filter_chat.h. */
#include "tokenizer_proc/filter_chat.h"

#include <errno.h>
#include <time.h>

#include "common/json.h"
#include "tokenizer_proc/jinja.h"
#include "tokenizer_proc/line_reader.h"

enum { MAX_LINE = 64 << 20 }; /* bytes */

struct filter {
    const struct chat_template *template; /* NULL: the filter jinja */
    struct arena arena;
    struct json_writer writer;
};

/* The clock of a line: its "now", or that of the host. */
static struct status read_now(const struct json_value *line, struct tm *out)
{
    const struct json_value *now = json_get(line, "now");
    time_t seconds = time(NULL);

    if (now && now->type == JSON_STRING)
        return jinja_parse_time(now->text.data, now->text.size, out);
    if (now && now->type != JSON_NULL)
        return status_error(STATUS_INVALID, "\"now\" must be a string");
    localtime_r(&seconds, out);
    return status_ok();
}

static struct status render_line(struct filter *filter, const struct json_value *line,
                                 struct jinja_output *out)
{
    const struct json_value *prompt = json_get(line, "add_generation_prompt");
    struct chat_text text = {0};
    struct chat_args args = {
        .messages = json_get(line, "messages"),
        .tools = json_get(line, "tools"),
        .kwargs = json_get(line, "kwargs"),
        .special_tokens = json_get(line, "special_tokens"),
        .add_generation_prompt = prompt && prompt->type == JSON_BOOL && prompt->boolean,
    };

    struct status status = read_now(line, &args.now);
    if (!status.code)
        status = chat_template_render(filter->template, &args, &filter->arena, &text);
    *out = (struct jinja_output){text.text, text.size, text.ranges, text.num_ranges};
    return status;
}

static struct status jinja_line(struct filter *filter, const struct json_value *line,
                                struct jinja_output *out)
{
    const struct json_value *source = json_get(line, "template");
    struct jinja_args args = {.context = json_get(line, "context")};
    struct jinja_template *template = NULL;

    if (!source || source->type != JSON_STRING)
        return status_error(STATUS_INVALID, "\"template\" must be a string");
    if (args.context && args.context->type != JSON_OBJECT)
        return status_error(STATUS_INVALID, "\"context\" must be an object");
    struct status status = read_now(line, &args.now);
    if (!status.code)
        status = jinja_compile(source->text.data, source->text.size, &template);
    if (!status.code)
        status = jinja_render(template, &args, &filter->arena, out);
    jinja_destroy(&template);
    return status;
}

static void write_ranges(struct json_writer *writer, const struct jinja_output *output)
{
    json_key(writer, "ranges");
    json_begin_array(writer);
    for (size_t i = 0; i < output->num_ranges; i++) {
        json_begin_array(writer);
        json_uint(writer, output->ranges[i].start);
        json_uint(writer, output->ranges[i].end);
        json_end_array(writer);
    }
    json_end_array(writer);
}

/* Puts the answer to one line into the writer. */
static void answer(struct filter *filter, struct status status, const char *data, size_t size)
{
    struct json_writer *writer = &filter->writer;
    struct json_value *line = NULL;
    struct jinja_output output = {0};

    arena_reset(&filter->arena);
    if (!status.code)
        status = json_parse(data, size, &filter->arena, &line);
    if (!status.code && line->type != JSON_OBJECT)
        status = status_error(STATUS_FORMAT, "not a JSON object");
    if (!status.code)
        status = filter->template ? render_line(filter, line, &output)
                                  : jinja_line(filter, line, &output);
    json_writer_reset(writer);
    json_begin_object(writer);
    const struct json_value *id = json_get(line, "id"), *ranges = json_get(line, "ranges");
    if (id) {
        json_key(writer, "id");
        json_write_value(writer, id);
    }
    json_key(writer, status.code ? "error" : "text");
    if (status.code)
        json_cstring(writer, status.msg);
    else
        json_string(writer, output.text, output.size);
    if (!status.code && ranges && ranges->type == JSON_BOOL && ranges->boolean)
        write_ranges(writer, &output);
    json_end_object(writer);
}

static struct status run(struct filter *filter, FILE *in, FILE *out)
{
    struct line_reader lines = {.file = in, .max_size = MAX_LINE};
    struct status status = status_ok();

    arena_init(&filter->arena, 0, 0);
    while (!status.code && line_reader_next(&lines)) {
        if (lines.size == 0 && !lines.status.code)
            continue;
        answer(filter, lines.status, lines.data, lines.size);
        if (filter->writer.failed)
            status = status_error(STATUS_NO_MEMORY, "no memory for an answer");
        else if (fwrite(filter->writer.data, 1, filter->writer.size, out) != filter->writer.size ||
                 fputc('\n', out) == EOF || fflush(out) == EOF)
            status = status_errno(errno, "write");
    }
    if (!status.code && ferror(in))
        status = status_errno(errno, "read");
    line_reader_deinit(&lines);
    json_writer_deinit(&filter->writer);
    arena_deinit(&filter->arena);
    return status;
}

struct status filter_render(const struct chat_template *template, FILE *in, FILE *out)
{
    struct filter filter = {.template = template};

    return run(&filter, in, out);
}

struct status filter_jinja(FILE *in, FILE *out)
{
    struct filter filter = {0};

    return run(&filter, in, out);
}
