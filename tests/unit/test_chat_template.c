/*
 * test_chat_template.c - chat templates: reference answers, how a model's template is found, what
 * the caller may send.
 */
#include "tokenizer_proc/chat_template.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"
#include "tokenizer_proc/jinja.h"

static struct arena arena;
static struct chat_template *template;

static void start(void)
{
    arena_init(&arena, 0, 0);
    template = NULL;
}

static void stop(void)
{
    chat_template_destroy(&template);
    arena_deinit(&arena);
}

static const struct json_value *json(const char *text)
{
    struct json_value *value = NULL;
    struct status status = json_parse(text, strlen(text), &arena, &value);

    ck_assert_msg(!status.code, "%s: %s", text, status.msg);
    return value;
}

/* ---- reference answers ---- */

struct reference {
    char name[64]; /* of the template that is open */
    size_t num_wrong;
};

static void open_named(struct reference *reference, const char *name)
{
    char file[128];

    if (strcmp(reference->name, name) == 0)
        return;
    chat_template_destroy(&template);
    template = NULL;
    snprintf(file, sizeof(file), "golden/templates/%s.jinja", name);
    struct status status = chat_template_open_file(lines_path(file), NULL, &template);
    ck_assert_msg(!status.code, "%s", status.msg);
    snprintf(reference->name, sizeof(reference->name), "%s", name);
}

static void check_case(void *context, const struct json_value *line)
{
    struct reference *reference = context;
    const struct json_value *text = json_get(line, "text");
    struct chat_text out = {0};
    struct chat_args args = {
        .messages = json_get(line, "messages"),
        .tools = json_get(line, "tools"),
        .kwargs = json_get(line, "kwargs"),
        .special_tokens = json_get(line, "special_tokens"),
        .add_generation_prompt = json_get(line, "add_generation_prompt")->boolean,
    };

    open_named(reference, json_get(line, "template")->text.data);
    ck_assert_int_eq(jinja_parse_time("2025-01-15T12:34:56", 19, &args.now).code, 0);
    arena_reset(&arena);
    struct status status = chat_template_render(template, &args, &arena, &out);
    bool right = text ? !status.code && out.size == text->text.size &&
                            memcmp(out.text, text->text.data, out.size) == 0
                      : status.code == STATUS_INVALID;
    if (!right) {
        fprintf(stderr, "wrong: %s %s\n", json_get(line, "id")->text.data, status.msg);
        reference->num_wrong++;
    }
}

START_TEST(reference_answers)
{
    struct reference reference = {0};

    start();
    ck_assert_uint_ge(lines_each("golden/chat.jsonl", check_case, &reference), 785);
    ck_assert_uint_eq(reference.num_wrong, 0);
    stop();
}
END_TEST

/* ---- finding the template ---- */

/* A directory of its own for a test, with files given as name, content, ..., NULL. */
static char dir[64];

static void make_dir(const char *const *files)
{
    snprintf(dir, sizeof(dir), "/tmp/test_chat_template.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (; *files; files += 2) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", dir, files[0]);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputs(files[1], file);
        fclose(file);
    }
}

static void remove_dir(void)
{
    static const char *const names[] = {"tokenizer_config.json", "chat_template.jinja",
                                        "chat_template.json", "special_tokens_map.json"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static const char *render(const char *messages, const char *tools, const char *kwargs)
{
    struct chat_text out = {0};
    struct chat_args args = {
        .messages = json(messages),
        .tools = tools ? json(tools) : NULL,
        .kwargs = kwargs ? json(kwargs) : NULL,
    };
    struct status status = chat_template_render(template, &args, &arena, &out);

    ck_assert_msg(!status.code, "%s", status.msg);
    return out.text;
}

static const struct {
    const char *files[7], *expected;
} models[] = {
    {{"tokenizer_config.json",
      "{\"chat_template\": \"{{ bos_token }}|{{ eos_token }}|{{ pad_token }}\","
      " \"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": false},"
      " \"pad_token\": null}"},
     "<s>|</s>|"},
    {{"tokenizer_config.json",
      "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"T{{ tools | length }}\"},"
      " {\"name\": \"default\", \"template\": \"D\"}]}"},
     "D"},
    {{"tokenizer_config.json", "{\"chat_template\": \"config\"}", "chat_template.jinja", "file"},
     "file"},
    {{"chat_template.json", "{\"chat_template\": \"json\"}"}, "json"},
    {{"chat_template.jinja", "{{ bos_token }}{{ additional_special_tokens }}",
      "special_tokens_map.json",
      "{\"bos_token\": {\"content\": \"<b>\"}, \"additional_special_tokens\": [\"<x>\","
      " {\"content\": \"<y>\"}]}"},
     "<b>['<x>', '<y>']"},
};

START_TEST(templates_are_found)
{
    start();
    make_dir(models[_i].files);
    struct status status = chat_template_open(dir, &template);
    remove_dir();
    ck_assert_msg(!status.code, "%s", status.msg);
    ck_assert_str_eq(render("[]", NULL, NULL), models[_i].expected);
    if (_i == 1)
        ck_assert_str_eq(render("[]", "[{}, {}]", NULL), "T2");
    stop();
}
END_TEST

static const struct {
    const char *files[5];
    enum status_code code;
} broken[] = {
    {{NULL}, STATUS_NOT_FOUND},
    {{"tokenizer_config.json", "{}"}, STATUS_NOT_FOUND},
    {{"tokenizer_config.json", "{\"chat_template\": null}"}, STATUS_NOT_FOUND},
    {{"tokenizer_config.json", "{\"chat_template\": 1}"}, STATUS_FORMAT},
    {{"tokenizer_config.json", "{\"chat_template\": []}"}, STATUS_UNSUPPORTED},
    {{"tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}"}, STATUS_FORMAT},
    {{"tokenizer_config.json", "[]"}, STATUS_FORMAT},
    {{"tokenizer_config.json", "{"}, STATUS_FORMAT},
    {{"chat_template.jinja", "{{"}, STATUS_FORMAT},
};

START_TEST(broken_models_are_told)
{
    start();
    make_dir(broken[_i].files);
    struct status status = chat_template_open(dir, &template);
    remove_dir();
    ck_assert_int_eq(status.code, broken[_i].code);
    ck_assert_ptr_null(template);
    ck_assert_uint_gt(strlen(status.msg), 0);
    stop();
}
END_TEST

/* ---- requests ---- */

static void open_text(const char *source)
{
    const char *const files[] = {"chat_template.jinja", source, NULL};

    make_dir(files);
    struct status status = chat_template_open(dir, &template);
    remove_dir();
    ck_assert_msg(!status.code, "%s", status.msg);
}

static struct status render_status(struct chat_args args, struct chat_text *out)
{
    return chat_template_render(template, &args, &arena, out);
}

START_TEST(parts_are_joined_where_the_template_does_not)
{
    const char *parts =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a \"},"
        " {\"type\": \"text\", \"text\": \"<b>\"}]},"
        " {\"role\": \"user\", \"content\": \"c\"}, {\"content\": null}]";
    struct chat_text out = {0};

    start();
    open_text("{% for m in messages %}[{{ m.content }}]{% endfor %}");
    struct chat_args args = {.messages = json(parts), .join_parts = true};
    ck_assert_int_eq(render_status(args, &out).code, STATUS_OK);
    ck_assert_str_eq(out.text, "[a <b>][c][None]");
    ck_assert_uint_eq(out.num_ranges, 2);
    ck_assert_uint_eq(out.ranges[0].start, 1);
    ck_assert_uint_eq(out.ranges[0].end, 6);
    chat_template_destroy(&template);
    template = NULL;
    open_text(
        "{% for m in messages %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endfor %}");
    args.messages = json("[{\"content\": [{\"type\": \"text\", \"text\": \"a \"}]}]");
    ck_assert_int_eq(render_status(args, &out).code, STATUS_OK);
    ck_assert_str_eq(out.text, "<a >");
    stop();
}
END_TEST

START_TEST(faults_of_a_request_are_named)
{
    static const struct {
        const char *messages, *message;
    } cases[] = {
        {"{}", "messages: must be a list"},
        {"[1]", "messages[0]: must be an object"},
        {"[{\"role\": \"x\"}]", "'dict object' has no attribute 'content'"},
        {"[{\"role\": \"y\", \"content\": \"\"}]", "Only x is known, not y"},
        {"[{\"role\": \"x\", \"content\": [{\"type\": \"image\"}]}]",
         "messages[0].content[0]: only parts of type text are supported"},
        {"[{\"role\": \"x\", \"content\": [{\"type\": \"text\"}]}]",
         "messages[0].content[0].text: must be a string"},
    };
    struct chat_text out = {0};

    start();
    open_text("{% for m in messages %}{% if m.role != 'x' %}"
              "{{ raise_exception('Only x is known, not ' ~ m.role) }}{% endif %}"
              "{{ m.content + '' }}{% endfor %}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct chat_args args = {.messages = json(cases[i].messages), .join_parts = true};
        struct status status = render_status(args, &out);
        ck_assert_int_eq(status.code, STATUS_INVALID);
        ck_assert_str_eq(status.msg, cases[i].message);
    }
    stop();
}
END_TEST

START_TEST(kwargs_are_variables)
{
    start();
    open_text("{{ messages | length }}{{ think }}{{ documents }}{{ eos_token }}");
    ck_assert_str_eq(
        render("[{}]", NULL, "{\"think\": true, \"messages\": 7, \"eos_token\": \"e\"}"),
        "1TrueNonee");
    stop();
}
END_TEST

/* What one writes in a message that looks like the end of it stays inside of its range. */
START_TEST(markers_in_content_are_the_callers)
{
    static const char marker[] = "<|im_end|>";
    struct chat_text out = {0};
    size_t num_inside = 0, num_outside = 0;

    start();
    struct status status =
        chat_template_open_file(lines_path("golden/templates/qwen3.jinja"), NULL, &template);
    ck_assert_msg(!status.code, "%s", status.msg);
    struct chat_args args = {
        .messages = json("[{\"role\": \"system\", \"content\": \"<|im_end|>\"},"
                         " {\"role\": \"user\", \"content\": \"x <|im_end|>\"},"
                         " {\"role\": \"assistant\", \"content\": \"<think>\\n<|im_end|>\\n</think>"
                         "\\n\\n<|im_end|>\", \"tool_calls\": [{\"function\": {\"name\": "
                         "\"<|im_end|>\", \"arguments\": {\"<|im_end|>\": \"<|im_end|>\"}}}]},"
                         " {\"role\": \"tool\", \"content\": \"<|im_end|>\"}]"),
        .tools = json("[{\"name\": \"<|im_end|>\"}]"),
        .add_generation_prompt = true,
    };
    ck_assert_int_eq(render_status(args, &out).code, STATUS_OK);
    for (const char *p = out.text; (p = strstr(p, marker)); p++) {
        size_t start_at = (size_t)(p - out.text), end_at = start_at + strlen(marker);
        bool inside = false, touched = false;
        for (size_t i = 0; i < out.num_ranges; i++) {
            struct text_range range = out.ranges[i];
            inside = inside || (range.start <= start_at && range.end >= end_at);
            touched = touched || (range.start < end_at && range.end > start_at);
        }
        ck_assert(inside == touched);
        num_inside += inside;
        num_outside += !inside;
    }
    ck_assert_uint_eq(num_inside, 9);
    ck_assert_uint_eq(num_outside, 4);
    stop();
}
END_TEST

static void *render_many(void *expected)
{
    const char *failed = NULL;

    for (int i = 0; i < 200 && !failed; i++) {
        struct arena own;
        struct json_value *messages = NULL;
        struct chat_text out = {0};
        static const char text[] = "[{\"role\": \"user\", \"content\": \"a\"}]";
        arena_init(&own, 0, 0);
        struct status status = json_parse(text, strlen(text), &own, &messages);
        struct chat_args args = {.messages = messages};
        if (!status.code)
            status = chat_template_render(template, &args, &own, &out);
        if (status.code || strcmp(out.text, expected) != 0)
            failed = "differs";
        arena_deinit(&own);
    }
    return failed ? expected : NULL;
}

START_TEST(threads_share_a_template)
{
    static char expected[] = "<|im_start|>user\na<|im_end|>\n";
    pthread_t threads[4];

    start();
    struct status status =
        chat_template_open_file(lines_path("golden/templates/qwen3.jinja"), NULL, &template);
    ck_assert_msg(!status.code, "%s", status.msg);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, render_many, expected), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    stop();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("chat_template");

    tcase_add_test(tcase, reference_answers);
    tcase_add_loop_test(tcase, templates_are_found, 0, (int)(sizeof(models) / sizeof(models[0])));
    tcase_add_loop_test(tcase, broken_models_are_told, 0,
                        (int)(sizeof(broken) / sizeof(broken[0])));
    tcase_add_test(tcase, parts_are_joined_where_the_template_does_not);
    tcase_add_test(tcase, faults_of_a_request_are_named);
    tcase_add_test(tcase, kwargs_are_variables);
    tcase_add_test(tcase, markers_in_content_are_the_callers);
    tcase_add_test(tcase, threads_share_a_template);
    return check_run_case("chat_template", tcase);
}
