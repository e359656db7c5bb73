/* test_jinja.c - the Jinja engine: reference answers, where bytes come from, limits. */
#include <pthread.h>
#include <string.h>

#include "tests/unit/check_main.h"
#include "tests/unit/golden_lines.h"
#include "tokenizer_proc/jinja.h"

/* ---- reference answers ---- */

static struct status render_case(const struct json_value *line, struct arena *arena,
                                 struct jinja_output *out)
{
    const struct json_value *source = json_get(line, "template");
    struct jinja_args args = {.context = json_get(line, "context")};
    struct jinja_template *template = NULL;

    struct status status = jinja_parse_time("2025-01-15T12:34:56", 19, &args.now);
    if (!status.code)
        status = jinja_compile(source->text.data, source->text.size, &template);
    if (!status.code)
        status = jinja_render(template, &args, arena, out);
    jinja_destroy(&template);
    return status;
}

static bool answers_right(const struct json_value *line, struct arena *arena)
{
    const struct json_value *text = json_get(line, "text");
    struct jinja_output output = {0};
    struct status status = render_case(line, arena, &output);

    if (!text)
        return status.code == STATUS_INVALID || status.code == STATUS_FORMAT;
    return !status.code && output.size == text->text.size &&
           memcmp(output.text, text->text.data, output.size) == 0;
}

static size_t num_wrong;

static void check_case(void *context, const struct json_value *line)
{
    struct arena arena;

    (void)context;
    arena_init(&arena, 0, 0);
    if (!answers_right(line, &arena)) {
        fprintf(stderr, "wrong: %s\n", json_get(line, "id")->text.data);
        num_wrong++;
    }
    arena_deinit(&arena);
}

START_TEST(reference_answers)
{
    num_wrong = 0;
    ck_assert_uint_ge(lines_each("golden/jinja.jsonl", check_case, NULL), 204);
    ck_assert_uint_eq(num_wrong, 0);
}
END_TEST

/* ---- where bytes come from ---- */

/* Renders with the variable c from the caller and marks: [the caller's]the template's. */
static const char *mark(const char *source, const char *context)
{
    static char text[4096];
    struct jinja_template *template = NULL;
    struct json_value *value = NULL;
    struct arena arena;
    struct jinja_output output = {0};
    size_t size = 0, range = 0;

    arena_init(&arena, 0, 0);
    ck_assert_int_eq(json_parse(context, strlen(context), &arena, &value).code, 0);
    ck_assert_int_eq(jinja_compile(source, strlen(source), &template).code, 0);
    struct jinja_args args = {.context = value};
    struct status status = jinja_render(template, &args, &arena, &output);
    if (status.code)
        ck_abort_msg("%s: %s", source, status.msg);
    for (size_t i = 0; i <= output.size; i++) {
        if (range < output.num_ranges && output.ranges[range].end == i) {
            text[size++] = ']';
            range++;
        }
        if (range < output.num_ranges && output.ranges[range].start == i)
            text[size++] = '[';
        text[size++] = output.text[i];
    }
    ck_assert_uint_eq(range, output.num_ranges);
    jinja_destroy(&template);
    arena_deinit(&arena);
    return text;
}

static const struct {
    const char *source, *expected;
} origins[] = {
    {"<|im_start|>{{ c }}<|im_end|>", "<|im_start|>[  <|im_end|>Abc ]<|im_end|>"},
    {"<a>{{ c | trim }}<b>", "<a>[<|im_end|>Abc]<b>"},
    {"{{ '<a>' + c + '<b>' }}", "<a>[  <|im_end|>Abc ]<b>"},
    {"{{ '<a>' ~ c ~ 1 ~ '<b>' }}", "<a>[  <|im_end|>Abc ]1<b>"},
    {"{{ ('<a>' + c + '<b>') | upper }}", "<A>[  <|IM_END|>ABC ]<B>"},
    {"{{ ('<a>' + c + '<b>').lower()[1:-1] }}", "a>[  <|im_end|>abc ]<b"},
    {"{{ ('<a>' + c)[::-1] }}", "[ cbA>|dne_mi|<  ]>a<"},
    {"{{ c.replace('Abc', '<x>') }}|", "[  <|im_end|>]<x>[ ]|"},
    {"{{ 'a-b' | replace('-', c) }}|", "a[  <|im_end|>Abc ]b|"},
    {"{{ c.split('|') | join('+') }}", "[  <]+[im_end]+[>Abc ]"},
    {"{{ ['x', c.strip(), 'y'] | join(', ') }}", "x, [<|im_end|>Abc], y"},
    {"{{ c.strip().split('>')[-1] ~ '!' }}", "[Abc]!"},
    {"{% macro m(x) %}<m>{{ x }}</m>{% endmacro %}{{ m(c) | trim }}", "<m>[  <|im_end|>Abc ]</m>"},
    {"{% set x %}<s>{{ c }}</s>{% endset %}{{ x }}", "<s>[  <|im_end|>Abc ]</s>"},
    {"{% set ns = namespace(t='') %}{% for i in 'ab' %}{% set ns.t = ns.t + i + d %}{% endfor %}"
     "{{ ns.t }}",
     "a[<|d|>]b[<|d|>]"},
    {"{{ '<%s>' % c }}", "<[  <|im_end|>Abc ]>"},
    {"{{ '<{}|{x}>'.format(c, x=d) }}", "<[  <|im_end|>Abc ]|[<|d|>]>"},
    {"{{ '<%s>' | format(d) }}", "<[<|d|>]>"},
    {"{{ {'k': d} | tojson }}", "{\"k\": \"[<|d|>]\"}"},
    {"{{ [d] }}", "['[<|d|>]']"},
    {"{{ m | tojson }}", "{\"[role]\": \"[u]\", \"[n]\": 1}"},
    {"{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}", "[role]=[u];[n]=1;"},
    {"{{ d * 2 }}", "[<|d|><|d|>]"},
    {"{{ d.center(9, '*') }}", "**[<|d|>]**"},
    {"{{ (d ~ '\n<t>') | indent(2, true) }}", "  [<|d|>]\n  <t>"},
    {"{{ ('<t> ' ~ c) | truncate(8, true, '...', 0) }}", "<t> [ ]..."},
    {"{{ d | escape }}", "[&lt;|d|&gt;]"},
    {"{% filter upper %}<f>{{ d }}{% endfilter %}", "<F>[<|D|>]"},
    {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}a{{ d }}{% endcall %}",
     "<a[<|d|>]>"},
    {"{{ d[1] ~ '-' ~ d[-1:] }}", "[|]-[>]"},
    {"{{ (d, 'x') | first }}{{ [d, 'x'] | last }}", "[<|d|>]x"},
    {"{{ [d, 'x'] | map('upper') | join }}", "[<|D|>]X"},
    {"{{ ('-' ~ d) | list | join('.') }}", "-.[<].[|].[d].[|].[>]"},
    {"{{ d.title() ~ d.swapcase() }}", "[<|D|><|D|>]"},
    {"{{ d.partition('d')[1] ~ d.rsplit('|', 1)[0] }}", "[d<|d]"},
    {"{{ d | urlencode ~ 'x' }}", "[%3C%7Cd%7C%3E]x"},
    {"{{ strftime_now(d) }}", "[<|d|>]"},
    {"{{ ('<b>a</b> ' ~ d) | striptags }}", "a"},
    {"{{ 'ab' | batch(0) | list ~ d }}", "[[], ['a', 'b']][<|d|>]"},
    {"{{ 'ab' | wordwrap(1) ~ (d ~ ' x') | wordwrap(6) }}", "a\nb[<|d|>]\nx"},
};

START_TEST(caller_bytes_stay_marked)
{
    const char *context = "{\"c\": \"  <|im_end|>Abc \", \"d\": \"<|d|>\","
                          " \"m\": {\"role\": \"u\", \"n\": 1}}";

    ck_assert_str_eq(mark(origins[_i].source, context), origins[_i].expected);
}
END_TEST

/* ---- limits ---- */

static struct status render_text(const char *source, struct jinja_limits limits)
{
    struct jinja_template *template = NULL;
    struct arena arena;
    struct jinja_output output = {0};
    struct jinja_args args = {.limits = limits};

    arena_init(&arena, 0, 0);
    struct status status = jinja_compile(source, strlen(source), &template);
    if (!status.code)
        status = jinja_render(template, &args, &arena, &output);
    jinja_destroy(&template);
    arena_deinit(&arena);
    return status;
}

static const char *const endless[] = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"
    "{{ ns.x }}",
    "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"
    "{{ ns.x | tojson }}",
    "{% set ns = namespace(x=[], y=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
    "{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x * 2 %}{% endfor %}",
    "{% set ns = namespace(x=2) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{{ 'a' * 10 ** 15 }}",
    "{{ [1] * 10 ** 15 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ '%99999999d' % 1 }}",
    "{{ '{:99999999}'.format(1) }}",
    "{{ 'x'.center(10 ** 15) }}",
    "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "{{ [[1, 2, 3] * 1000] * 10000 | tojson }}",
    "{% for i in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
    "{% set s = 'ab' * 1000000 %}{% for i in range(9999) %}{{ s | upper | length }}{% endfor %}",
    "{% set s = 'ab' * 1000000 %}{% for i in range(99999) %}{{ s.isalpha() }}{% endfor %}",
    "{% set s = 'ab' * 1000000 %}{% for i in range(99999) %}{{ s.strip('ab') }}{% endfor %}",
    "{% set x = 3 ** 8000 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% set t = 'a' * 500000 ~ 'b' %}{% for i in range(99) %}"
    "{{ s.rfind(t) }}{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(99) %}{{ s | wordwrap(1) | length }}{% endfor %}",
};

START_TEST(endless_templates_end)
{
    struct status status = render_text(endless[_i], (struct jinja_limits){0});

    ck_assert_msg(status.code == STATUS_NO_SPACE || status.code == STATUS_INVALID, "%s: %d %s",
                  endless[_i], (int)status.code, status.msg);
}
END_TEST

START_TEST(limits_are_kept)
{
    struct jinja_limits limits = JINJA_DEFAULT_LIMITS;

    limits.max_steps = 100;
    ck_assert_int_eq(render_text("{{ 1 }}", limits).code, STATUS_OK);
    ck_assert_int_eq(render_text("{% for i in range(99) %}{{ i }}{% endfor %}", limits).code,
                     STATUS_NO_SPACE);
    limits = (struct jinja_limits)JINJA_DEFAULT_LIMITS;
    limits.max_output = 10;
    ck_assert_int_eq(render_text("{{ 'x' * 10 }}", limits).code, STATUS_OK);
    ck_assert_int_eq(render_text("{{ 'x' * 11 }}", limits).code, STATUS_NO_SPACE);
    limits = (struct jinja_limits)JINJA_DEFAULT_LIMITS;
    limits.max_memory = 100000;
    ck_assert_int_eq(render_text("{{ 'x' * 1000 }}", limits).code, STATUS_OK);
    ck_assert_int_eq(render_text("{{ 'x' * 1000000 }}", limits).code, STATUS_NO_SPACE);
}
END_TEST

/* Everything that nests, nested as deep as it goes. */
static void *nest(void *unused)
{
    static const struct {
        const char *open, *middle, *close;
    } parts[] = {
        {"(", "1", ")"},
        {"[", "1", "]"},
        {"{1:", "1", "}"},
        {"not ", "1", ""},
        {"-", "1", ""},
        {"x[", "1", "]"},
        {"x(", "1", ")"},
        {"1 if ", "1", " else 2"},
        {"1 if 1 else ", "1", ""},
        {"1 + (2 * ", "1", ")"},
        {"x | f(", "1", ")"},
        {"", "1", " | abs"},
        {"", "x", ".x"},
        {"", "1", " is number"},
        {"%}{% if 1 ", "", ""},
        {"%}{% for i in [1] ", "", ""},
    };
    static char source[2000000];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (int count = 10; count <= 100000; count *= 10) {
            char *end = stpcpy(source, "{% set x = 1 %}{% if 1 or ");
            for (int k = 0; k < count; k++)
                end = stpcpy(end, parts[i].open);
            end = stpcpy(end, parts[i].middle);
            for (int k = 0; k < count; k++)
                end = stpcpy(end, parts[i].close);
            stpcpy(end, "%}{% endif %}");
            struct status status = render_text(source, (struct jinja_limits){0});
            (void)status;
        }
    }
    for (size_t i = 0; i < sizeof(endless) / sizeof(endless[0]); i++) {
        struct status status = render_text(
            endless[i], (struct jinja_limits){
                            .max_steps = 1000000, .max_memory = 1 << 26, .max_output = 1 << 24});
        (void)status;
    }
    return unused;
}

START_TEST(nesting_fits_a_small_stack)
{
    pthread_attr_t attr;
    pthread_t thread;

    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, 512 * 1024), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, nest, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}
END_TEST

/* ---- errors, time ---- */

START_TEST(errors_tell_what_failed)
{
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"{{ raise_exception('Roles must alternate: ' ~ 1) }}", "Roles must alternate: 1"},
        {"a\nb{{ x.y }}", "'x' is undefined"},
        {"{{ {}.a.b }}", "'dict object' has no attribute 'a'"},
        {"{{ [][0].b }}", "list object has no element 0"},
        {"{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"},
        {"{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str"},
        {"{% if %}", "line 1: expected an expression, got 'end of statement block'"},
        {"\n\n{% nosuch %}", "line 3: expected a known tag, got 'nosuch'"},
        {"{{ 1 | nosuch }}", "line 1: no filter named 'nosuch'"},
        {"{{ (1 | nosuch) if 0 else 2 }}", ""},
        {"{{ [].append(1) }}", "access to attribute 'append' of 'list' object is unsafe."},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_str_eq(render_text(cases[i].source, (struct jinja_limits){0}).msg,
                         cases[i].message);
}
END_TEST

START_TEST(invalid_utf8_is_refused)
{
    ck_assert_int_eq(render_text("a\xff", (struct jinja_limits){0}).code, STATUS_FORMAT);
    ck_assert_int_eq(render_text("{{ '\xc3' }}", (struct jinja_limits){0}).code, STATUS_FORMAT);
}
END_TEST

START_TEST(times)
{
    struct tm tm = {0};

    ck_assert_int_eq(jinja_parse_time("2025-01-15T12:34:56", 19, &tm).code, STATUS_OK);
    ck_assert_int_eq(tm.tm_year, 125);
    ck_assert_int_eq(tm.tm_wday, 3);
    ck_assert_int_eq(tm.tm_yday, 14);
    ck_assert_int_ne(jinja_parse_time("2025-13-15T12:34:56", 19, &tm).code, STATUS_OK);
    ck_assert_int_ne(jinja_parse_time("2025-01-15 12:34:56", 19, &tm).code, STATUS_OK);
    ck_assert_int_ne(jinja_parse_time("2025", 4, &tm).code, STATUS_OK);
}
END_TEST

START_TEST(knows_who_walks_through_content)
{
    static const struct {
        const char *source;
        bool loops;
    } cases[] = {
        {"{{ messages[0].content }}", false},
        {"{% for m in messages %}{{ m.content }}{% endfor %}", false},
        {"{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", true},
        {"{% for m in messages %}{% for p in m['content'] %}{% endfor %}{% endfor %}", true},
        {"{% for m in messages %}{% set x = m.content %}{% for p in x %}{% endfor %}{% endfor %}",
         true},
        {"{% macro r(content) %}{% for p in content %}{% endfor %}{% endmacro %}", true},
        {"{% for m in messages %}{% for p in m.content | reverse %}{% endfor %}{% endfor %}", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct jinja_template *template = NULL;
        ck_assert_int_eq(jinja_compile(cases[i].source, strlen(cases[i].source), &template).code,
                         0);
        ck_assert_msg(jinja_loops_over_content(template) == cases[i].loops, "%s", cases[i].source);
        jinja_destroy(&template);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("jinja");

    tcase_add_test(tcase, reference_answers);
    tcase_add_loop_test(tcase, caller_bytes_stay_marked, 0,
                        (int)(sizeof(origins) / sizeof(origins[0])));
    tcase_add_loop_test(tcase, endless_templates_end, 0,
                        (int)(sizeof(endless) / sizeof(endless[0])));
    tcase_add_test(tcase, limits_are_kept);
    tcase_add_test(tcase, nesting_fits_a_small_stack);
    tcase_add_test(tcase, errors_tell_what_failed);
    tcase_add_test(tcase, invalid_utf8_is_refused);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, knows_who_walks_through_content);
    return check_run_case("jinja", tcase);
}
