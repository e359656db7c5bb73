/*
 * jinja_filters_markup.c - filters for HTML, XML and URLs. See jinja_functions.h.
 */
#include "tokenizer_proc/jinja_functions.h"
#include "tokenizer_proc/jinja_print.h"

static bool escape(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_escape(run, call->self, out);
}

static bool set_markup(struct jinja_run *run, struct jinja_value *value, bool is_markup)
{
    struct jinja_string *string = jinja_alloc(run, 1, sizeof(*string));

    if (!string)
        return false;
    *string = *value->string;
    string->is_markup = is_markup;
    value->string = string;
    return true;
}

static bool forceescape(struct jinja_run *run, const struct jinja_call *call,
                        struct jinja_value *out)
{
    struct jinja_value text = {0};

    return jinja_to_string(run, call->self, &text) && set_markup(run, &text, false) &&
           jinja_escape(run, text, out);
}

static bool safe(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    return jinja_to_string(run, call->self, out) && set_markup(run, out, true);
}

/* Finds <...> or <!-- ... --> at or behind *start; false if there is none. */
static bool find_tag(const struct jinja_string *string, const char *open, const char *close,
                     size_t *start, size_t *end)
{
    struct jinja_string opening = {.data = open, .size = strlen(open)};
    struct jinja_string closing = {.data = close, .size = strlen(close)};

    *start = jinja_find(string, &opening, *start);
    if (*start == SIZE_MAX)
        return false;
    *end = jinja_find(string, &closing, *start + opening.size);
    if (*end == SIZE_MAX)
        return false;
    *end += closing.size;
    return true;
}

static bool remove_tags(struct jinja_run *run, const char *open, const char *close,
                        struct jinja_value *text)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_string *string = text->string;
    size_t kept = 0, start = 0, end = 0;

    while (find_tag(string, open, close, &start, &end)) {
        if (!jinja_buffer_add_slice(&buffer, string, kept, start))
            return false;
        kept = start = end;
    }
    return jinja_buffer_add_slice(&buffer, string, kept, string->size) &&
           jinja_buffer_finish(&buffer, text);
}

/* Runs of white space become one blank; the named entities become their characters. */
static bool striptags(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    static const struct {
        const char *entity, *character;
    } entities[] = {{"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""},       {"&#34;", "\""},
                    {"&#39;", "'"}, {"&apos;", "'"}, {"&nbsp;", "\xC2\xA0"}, {"&amp;", "&"}};
    static const struct jinja_string blank = {.data = " ", .size = 1};
    static const struct jinja_string split_name = {.data = "split", .size = 5};
    struct jinja_call split = {0};
    struct jinja_value text = {0}, words = {0};

    if (!jinja_to_string(run, call->self, &text) || !remove_tags(run, "<!--", "-->", &text) ||
        !remove_tags(run, "<", ">", &text))
        return false;
    split.self = text;
    if (!jinja_call_function(run, jinja_find_string_method(&split_name), &split, &words) ||
        !jinja_join(run, &blank, words.list, true, &text))
        return false;
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        struct jinja_string from = {.data = entities[i].entity, .size = strlen(entities[i].entity)};
        struct jinja_string to = {.data = entities[i].character,
                                  .size = strlen(entities[i].character),
                                  .origin = jinja_has_caller(text.string) ? JINJA_FROM_CALLER
                                                                          : JINJA_FROM_TEMPLATE};
        if (!jinja_replace(run, text.string, &from, &to, -1, &text))
            return false;
    }
    *out = text;
    return true;
}

static bool xmlattr(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_value key = {0}, value = {0};

    if (call->self.type != JINJA_DICT)
        return jinja_fail(run, "xmlattr takes a mapping, not %s", jinja_type_name(call->self));
    const struct jinja_dict *dict = call->self.dict;
    bool space = call->bound[0].type == JINJA_MISSING || jinja_is_true(call->bound[0]);
    for (size_t i = 0; i < dict->num_items; i++) {
        if (dict->values[i].type == JINJA_NONE || dict->values[i].type == JINJA_UNDEFINED)
            continue;
        if (!jinja_to_string(run, dict->keys[i], &key))
            return false;
        for (size_t at = 0; at < key.string->size; at++) {
            if (strchr(" \t\n\r\f\v/>=", key.string->data[at]))
                return jinja_fail(run, "Invalid character in attribute name");
        }
        if (!jinja_escape(run, key, &key) || !jinja_escape(run, dict->values[i], &value) ||
            ((space || buffer.size > 0) && !jinja_buffer_add_text(&buffer, " ")) ||
            !jinja_buffer_add_string(&buffer, key.string) ||
            !jinja_buffer_add_text(&buffer, "=\"") ||
            !jinja_buffer_add_string(&buffer, value.string) ||
            !jinja_buffer_add_text(&buffer, "\""))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

static bool add_url_text(struct jinja_buffer *buffer, struct jinja_value value, bool in_query)
{
    struct jinja_value text = {0};

    if (!jinja_to_string(buffer->run, value, &text))
        return false;
    for (size_t i = 0; i < text.string->size; i++) {
        char c = text.string->data[i], escaped[4];
        bool from_caller = jinja_is_caller_at(text.string, i);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !in_query);
        if (plain)
            snprintf(escaped, sizeof(escaped), "%c", c);
        else if (c == ' ' && in_query)
            snprintf(escaped, sizeof(escaped), "+");
        else
            snprintf(escaped, sizeof(escaped), "%%%02X", (unsigned)(unsigned char)c);
        if (!jinja_buffer_add(buffer, escaped, strlen(escaped), from_caller))
            return false;
    }
    return true;
}

static bool urlencode(struct jinja_run *run, const struct jinja_call *call, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    const struct jinja_list *pairs = NULL, *pair = NULL;
    struct jinja_value value = call->self;

    if (value.type == JINJA_DICT) {
        static const struct jinja_string items_name = {.data = "items", .size = 5};
        struct jinja_call items = {.self = value};
        bool unsafe = false;
        if (!jinja_call_function(run, jinja_find_method(JINJA_DICT, &items_name, &unsafe), &items,
                                 &value))
            return false;
    } else if (value.type == JINJA_STRING || jinja_is_number(value) || value.type == JINJA_NONE) {
        return add_url_text(&buffer, value, false) && jinja_buffer_finish(&buffer, out);
    }
    if (!jinja_iterate(run, value, &pairs))
        return false;
    for (size_t i = 0; i < pairs->num_items; i++) {
        if (!jinja_iterate(run, pairs->items[i], &pair))
            return false;
        if (pair->num_items != 2)
            return jinja_fail(run, "urlencode takes pairs");
        if ((i > 0 && !jinja_buffer_add_text(&buffer, "&")) ||
            !add_url_text(&buffer, pair->items[0], true) || !jinja_buffer_add_text(&buffer, "=") ||
            !add_url_text(&buffer, pair->items[1], true))
            return false;
    }
    return jinja_buffer_finish(&buffer, out);
}

const struct jinja_function jinja_markup_filters[] = {
    {"e", escape, "", 0},
    {"escape", escape, "", 0},
    {"forceescape", forceescape, "", 0},
    {"safe", safe, "", 0},
    {"striptags", striptags, "", 0},
    {"urlencode", urlencode, "", 0},
    {"xmlattr", xmlattr, "autospace ", 0},
    {0},
};
