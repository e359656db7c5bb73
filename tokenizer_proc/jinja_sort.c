/*
 * jinja_sort.c - a stable sort of values: merging runs of doubling length. See jinja_print.h.
 */
#include "tokenizer_proc/jinja_print.h"

/* Whether the item at b goes before the one at a. */
static bool goes_before(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                        bool reverse, bool *out)
{
    return reverse ? jinja_less(run, a, b, out) : jinja_less(run, b, a, out);
}

bool jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys,
                size_t num_items, bool reverse)
{
    struct jinja_value *by = keys ? keys : items;
    size_t *order = jinja_alloc(run, num_items, sizeof(*order));
    size_t *merged = jinja_alloc(run, num_items, sizeof(*merged));
    struct jinja_value *moved = jinja_alloc(run, num_items, sizeof(*moved));

    if (!order || !merged || !moved)
        return false;
    for (size_t i = 0; i < num_items; i++)
        order[i] = i;
    for (size_t width = 1; width < num_items; width *= 2) {
        for (size_t start = 0; start < num_items; start += 2 * width) {
            size_t middle = start + width < num_items ? start + width : num_items;
            size_t end = middle + width < num_items ? middle + width : num_items;
            size_t left = start, right = middle;
            for (size_t i = start; i < end; i++) {
                bool take_right = left == middle;
                if (!take_right && right < end &&
                    !goes_before(run, by[order[left]], by[order[right]], reverse, &take_right))
                    return false;
                merged[i] = take_right ? order[right++] : order[left++];
            }
        }
        size_t *swap = order;
        order = merged;
        merged = swap;
    }
    for (size_t i = 0; i < num_items; i++)
        moved[i] = items[order[i]];
    if (num_items)
        memcpy(items, moved, num_items * sizeof(*items));
    for (size_t i = 0; keys && i < num_items; i++)
        moved[i] = keys[order[i]];
    if (keys && num_items)
        memcpy(keys, moved, num_items * sizeof(*keys));
    return true;
}
