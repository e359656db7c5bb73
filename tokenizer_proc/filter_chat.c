/* filter_chat.c - see filter_chat.h. */
#include "tokenizer_proc/filter_chat.h"

#include <time.h>

#include "common/line_filter.h"
#include "tokenizer_proc/jinja.h"

enum { MAX_LINE = 64 << 20 }; /* bytes */

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

static struct status render_line(const struct chat_template *template,
                                 const struct json_value *line, struct arena *arena,
                                 struct jinja_output *out)
{
    const struct json_value *prompt = json_get(line, "add_generation_prompt");
    struct chat_text text = {0};
    struct chat_args args = {
        .messages = json_get(line, "messages"),
        .tools = json_get(line, "tools"),
        .kwargs = json_get(line, "kwargs"),
        .special_tokens = json_get(line, "special_tokens"),
        .add_generation_prompt = !prompt || prompt->type != JSON_BOOL || prompt->boolean,
    };

    struct status status = read_now(line, &args.now);
    if (!status.code)
        status = chat_template_render(template, &args, arena, &text);
    *out = (struct jinja_output){text.text, text.size, text.ranges, text.num_ranges};
    return status;
}

static struct status jinja_line(const struct json_value *line, struct arena *arena,
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
        status = jinja_render(template, &args, arena, out);
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

/* context: the chat template, or NULL for the filter jinja. */
static struct status answer(void *context, const struct json_value *line, struct arena *arena,
                            struct json_writer *out)
{
    const struct json_value *ranges = json_get(line, "ranges");
    struct jinja_output output = {0};
    struct status status =
        context ? render_line(context, line, arena, &output) : jinja_line(line, arena, &output);

    if (status.code)
        return status;
    json_key(out, "text");
    json_string(out, output.text, output.size);
    if (ranges && ranges->type == JSON_BOOL && ranges->boolean)
        write_ranges(out, &output);
    return status;
}

struct status filter_render(struct chat_template *template, FILE *in, FILE *out)
{
    return line_filter_run(
        &(struct line_filter){.answer = answer, .context = template, .max_line_bytes = MAX_LINE},
        in, out);
}

struct status filter_jinja(FILE *in, FILE *out)
{
    return line_filter_run(&(struct line_filter){.answer = answer, .max_line_bytes = MAX_LINE}, in,
                           out);
}
