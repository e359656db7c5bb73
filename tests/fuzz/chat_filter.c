/*
 * chat_filter.c - the filters render and jinja as a program of their own, for
 * tests/fuzz/diff_jinja.py.
 *
 *     chat_filter jinja                    chat_filter render TEMPLATE.jinja
 */
#include <string.h>

#include "tokenizer_proc/filter_chat.h"

int main(int argc, char **argv)
{
    struct chat_template *template = NULL;
    struct status status = status_ok();

    if (argc == 2 && strcmp(argv[1], "jinja") == 0) {
        status = filter_jinja(stdin, stdout);
    } else if (argc == 3 && strcmp(argv[1], "render") == 0) {
        status = chat_template_open_file(argv[2], NULL, &template);
        if (!status.code)
            status = filter_render(template, stdin, stdout);
        chat_template_destroy(&template);
    } else {
        fprintf(stderr, "usage: chat_filter jinja | render TEMPLATE\n");
        return 2;
    }
    if (status.code)
        fprintf(stderr, "chat_filter: %s\n", status.msg);
    return status.code ? 1 : 0;
}
