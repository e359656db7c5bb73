/*
 * jinja_exec.c - statements. See jinja_eval.h.
 */
#include "tokenizer_proc/jinja_eval.h"
#include "tokenizer_proc/jinja_print.h"

/* ---- assignment ---- */

static bool assign(struct jinja_run *run, struct jinja_scope *scope,
                   const struct jinja_node *target, struct jinja_value value);

static bool assign_items(struct jinja_run *run, struct jinja_scope *scope,
                         const struct jinja_node *target, struct jinja_value value)
{
    const struct jinja_list *items = NULL;

    if (!jinja_enter(run) || !jinja_iterate(run, value, &items))
        return false;
    if (items->num_items < target->num_items)
        return jinja_fail(run, "not enough values to unpack (expected %zu, got %zu)",
                          target->num_items, items->num_items);
    if (items->num_items > target->num_items)
        return jinja_fail(run, "too many values to unpack (expected %zu)", target->num_items);
    for (size_t i = 0; i < target->num_items; i++) {
        if (!assign(run, scope, target->items[i], items->items[i]))
            return false;
    }
    jinja_leave(run);
    return true;
}

static bool assign_attribute(struct jinja_run *run, struct jinja_scope *scope,
                             const struct jinja_node *target, struct jinja_value value)
{
    struct jinja_node name = {.type = NODE_NAME, .symbol = target->symbol, .value = target->value};
    struct jinja_value object = {0};

    if (!jinja_eval(run, scope, &name, &object))
        return false;
    if (object.type != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    return jinja_dict_set(run, object.dict, target->value, value);
}

static bool assign(struct jinja_run *run, struct jinja_scope *scope,
                   const struct jinja_node *target, struct jinja_value value)
{
    if (target->type == NODE_NAME)
        return jinja_scope_set(run, scope, target->symbol, value);
    if (target->type == NODE_NAMESPACE)
        return assign_attribute(run, scope, target, value);
    return assign_items(run, scope, target, value);
}

static bool exec_set(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_node *node)
{
    struct jinja_value value = {0};

    return jinja_eval(run, scope, node->b, &value) && assign(run, scope, node->a, value);
}

static bool exec_set_block(struct jinja_run *run, struct jinja_scope *scope,
                           const struct jinja_node *node)
{
    struct jinja_scope *inner = jinja_make_scope(run, scope);
    struct jinja_value text = {0}, value = {0};

    return inner && jinja_exec_to_string(run, inner, node->c, &text) &&
           jinja_eval_filters(run, scope, node->b, text, &value) &&
           assign(run, scope, node->a, value);
}

static bool exec_with(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node)
{
    struct jinja_scope *inner = jinja_make_scope(run, scope);
    struct jinja_value value = {0};

    if (!inner)
        return false;
    for (size_t i = 0; i + 1 < node->num_items; i += 2) {
        if (!jinja_eval(run, scope, node->items[i + 1], &value) ||
            !assign(run, inner, node->items[i], value))
            return false;
    }
    return jinja_exec(run, inner, node->c);
}

/* ---- loops ---- */

bool jinja_loop_look_ahead(struct jinja_run *run, struct jinja_loop *loop, size_t num_items)
{
    struct jinja_value holds = {0};

    while (loop->items.num_items < num_items && loop->next_source < loop->source->num_items) {
        struct jinja_value item = loop->source->items[loop->next_source++];
        loop->condition_scope->num_bindings = 0;
        if (!assign(run, loop->condition_scope, loop->node->a, item) ||
            !jinja_eval(run, loop->condition_scope, loop->node->e, &holds))
            return false;
        if (jinja_is_true(holds) && !jinja_items_add(run, &loop->items, item))
            return false;
    }
    return true;
}

static bool run_loop(struct jinja_run *run, struct jinja_loop *loop)
{
    struct jinja_value value = {.type = JINJA_LOOP, .loop = loop};
    struct jinja_scope *inner = jinja_make_scope(run, loop->scope);

    for (;; loop->index0++) {
        if (!jinja_loop_look_ahead(run, loop, loop->index0 + 1))
            return false;
        if (loop->index0 == loop->items.num_items)
            return true;
        if (inner && inner->is_captured)
            inner = jinja_make_scope(run, loop->scope);
        if (!inner)
            return false;
        inner->num_bindings = 0;
        if (!jinja_step(run, 1) || !jinja_scope_set(run, inner, SYMBOL_LOOP, value) ||
            !assign(run, inner, loop->node->a, loop->items.items[loop->index0]) ||
            !jinja_exec(run, inner, loop->node->c))
            return false;
        enum jinja_flow flow = run->flow;
        run->flow = JINJA_GO_ON;
        if (flow == JINJA_BREAK)
            return true;
    }
}

static bool loop_over(struct jinja_run *run, struct jinja_scope *scope,
                      const struct jinja_node *node, struct jinja_value over, size_t depth0)
{
    struct jinja_loop *loop = jinja_alloc(run, 1, sizeof(*loop));

    if (!loop)
        return false;
    *loop = (struct jinja_loop){.depth0 = depth0, .node = node, .scope = scope};
    if (!jinja_iterate(run, over, &loop->source))
        return false;
    if (node->e) {
        loop->condition_scope = jinja_make_scope(run, scope);
        if (!loop->condition_scope)
            return false;
    } else {
        loop->next_source = loop->source->num_items;
        loop->items.items = loop->source->items;
        loop->items.num_items = loop->source->num_items;
    }
    if (!jinja_loop_look_ahead(run, loop, 1))
        return false;
    if (loop->items.num_items > 0)
        return run_loop(run, loop);
    struct jinja_scope *inner = node->d ? jinja_make_scope(run, scope) : NULL;
    return !node->d || (inner && jinja_exec(run, inner, node->d));
}

static bool exec_for(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_node *node)
{
    struct jinja_value over = {0};

    return jinja_eval(run, scope, node->b, &over) && loop_over(run, scope, node, over, 0);
}

bool jinja_exec_recursive(struct jinja_run *run, const struct jinja_loop *loop,
                          struct jinja_value over, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_buffer *outer = run->out;

    run->out = &buffer;
    bool ok = loop_over(run, loop->scope, loop->node, over, loop->depth0 + 1);
    run->out = outer;
    return ok && jinja_buffer_finish(&buffer, out);
}

/* ---- macros and blocks ---- */

static bool make_macro(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_alloc(run, 1, sizeof(*macro));

    if (!macro)
        return false;
    for (struct jinja_scope *around = scope; around; around = around->parent)
        around->is_captured = true;
    *macro = (struct jinja_macro){.node = node, .scope = scope};
    *out = (struct jinja_value){.type = JINJA_MACRO, .macro = macro};
    return true;
}

static bool exec_macro(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node)
{
    struct jinja_value macro = {0};

    return make_macro(run, scope, node, &macro) && jinja_scope_set(run, scope, node->symbol, macro);
}

/* What a call or filter block gives must be a text. */
static bool print_text(struct jinja_run *run, struct jinja_value value)
{
    if (value.type != JINJA_STRING)
        return jinja_fail(run, "expected str instance, %s found", jinja_type_name(value));
    return jinja_print(run->out, value);
}

static bool exec_call_block(struct jinja_run *run, struct jinja_scope *scope,
                            const struct jinja_node *node)
{
    struct jinja_value callee = {0}, value = {0}, name = {0};
    struct jinja_call call = {0};

    if (!jinja_eval(run, scope, node->a->a, &callee) ||
        !jinja_eval_arguments(run, scope, node->a->arguments, &call))
        return false;
    struct jinja_named *named = jinja_alloc(run, call.num_named + 1, sizeof(*named));
    if (!named || !jinja_make_text(run, "caller", &name))
        return false;
    if (call.num_named)
        memcpy(named, call.named, call.num_named * sizeof(*named));
    named[call.num_named].name = name;
    if (!make_macro(run, scope, node->b, &named[call.num_named].value))
        return false;
    call.named = named;
    call.num_named++;
    return jinja_call_value(run, callee, &call, &value) && print_text(run, value);
}

static bool exec_filter_block(struct jinja_run *run, struct jinja_scope *scope,
                              const struct jinja_node *node)
{
    struct jinja_scope *inner = jinja_make_scope(run, scope);
    struct jinja_value text = {0}, value = {0};

    return inner && jinja_exec_to_string(run, inner, node->c, &text) &&
           jinja_eval_filters(run, scope, node->b, text, &value) && print_text(run, value);
}

bool jinja_exec_to_string(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_buffer buffer = jinja_buffer_make(run);
    struct jinja_buffer *outer = run->out;

    run->out = &buffer;
    bool ok = jinja_exec(run, scope, node);
    run->out = outer;
    return ok && jinja_buffer_finish(&buffer, out);
}

/* ---- statements ---- */

static bool exec_if(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node)
{
    struct jinja_value test = {0};

    for (size_t i = 0; i + 1 < node->num_items; i += 2) {
        if (!jinja_eval(run, scope, node->items[i], &test))
            return false;
        if (jinja_is_true(test))
            return jinja_exec(run, scope, node->items[i + 1]);
    }
    return !node->c || jinja_exec(run, scope, node->c);
}

static bool exec_sequence(struct jinja_run *run, struct jinja_scope *scope,
                          const struct jinja_node *node)
{
    for (size_t i = 0; i < node->num_items && run->flow == JINJA_GO_ON; i++) {
        if (!jinja_exec(run, scope, node->items[i]))
            return false;
    }
    return true;
}

static bool exec_print(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node)
{
    struct jinja_value value = {0};

    if (!jinja_eval(run, scope, node->a, &value) || !jinja_print(run->out, value))
        return false;
    return run->out->size <= run->max_output || jinja_fail_space(run, "its text is too long");
}

static bool exec_scope(struct jinja_run *run, struct jinja_scope *scope,
                       const struct jinja_node *node)
{
    while (node->flag && scope->parent) /* a block that is not `scoped` */
        scope = scope->parent;
    struct jinja_scope *inner = jinja_make_scope(run, scope);
    return inner && jinja_exec(run, inner, node->c);
}

static bool exec_one(struct jinja_run *run, struct jinja_scope *scope,
                     const struct jinja_node *node)
{
    switch (node->type) {
    case NODE_DATA:
        return jinja_buffer_add_string(run->out, node->value.string);
    case NODE_PRINT:
        return exec_print(run, scope, node);
    case NODE_SEQUENCE:
        return exec_sequence(run, scope, node);
    case NODE_IF:
        return exec_if(run, scope, node);
    case NODE_FOR:
        return exec_for(run, scope, node);
    case NODE_SET:
        return exec_set(run, scope, node);
    case NODE_SET_BLOCK:
        return exec_set_block(run, scope, node);
    case NODE_WITH:
        return exec_with(run, scope, node);
    case NODE_MACRO:
        return exec_macro(run, scope, node);
    case NODE_CALL_BLOCK:
        return exec_call_block(run, scope, node);
    case NODE_FILTER_BLOCK:
        return exec_filter_block(run, scope, node);
    case NODE_SCOPE:
        return exec_scope(run, scope, node);
    case NODE_BREAK:
        run->flow = JINJA_BREAK;
        return true;
    default:
        run->flow = JINJA_CONTINUE;
        return true;
    }
}

bool jinja_exec(struct jinja_run *run, struct jinja_scope *scope, const struct jinja_node *node)
{
    if (!jinja_step(run, 1) || !jinja_enter(run))
        return false;
    bool ok = exec_one(run, scope, node);
    jinja_leave(run);
    return ok;
}
