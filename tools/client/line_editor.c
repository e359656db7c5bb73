/* line_editor.c - see line_editor.h. */
#include "tools/client/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HISTORY_LINES = 1000,
    PASTE_MS = 30, /* what comes so soon behind a line end was not typed */
};

struct line_editor {
    char prompt[16];
    EditLine *edit;   /* owned; NULL: no terminal */
    History *history; /* owned */
    char path[512];   /* of the history; "": none */
    char *text;       /* owned: the lines read so far, or the buffer of getline() */
    size_t size, capacity;
    bool is_continued; /* the prompt is not shown for pasted lines */
};

static char *prompt_of(EditLine *edit)
{
    static char none[] = "";
    struct line_editor *editor = NULL;

    el_get(edit, EL_CLIENTDATA, &editor);
    return editor->is_continued ? none : editor->prompt;
}

/* mkdir -p for the folder of the history. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void open_history(struct line_editor *editor)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    HistEvent event;
    int size = 0;

    editor->history = history_init();
    if (!editor->history)
        return;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->edit, EL_HIST, history, editor->history);
    if (state && *state)
        size = snprintf(editor->path, sizeof(editor->path), "%s/minisgl/chat_history", state);
    else if (home && *home)
        size = snprintf(editor->path, sizeof(editor->path), "%s/.local/state/minisgl/chat_history",
                        home);
    if (size <= 0 || (size_t)size >= sizeof(editor->path)) {
        editor->path[0] = '\0';
        return;
    }
    make_folders(editor->path);
    history(editor->history, &event, H_LOAD, editor->path);
}

struct status line_editor_open(const char *prompt, struct line_editor **out)
{
    struct line_editor *editor = calloc(1, sizeof(*editor));

    if (!editor)
        return status_error(STATUS_NO_MEMORY, "no memory for the line editor");
    snprintf(editor->prompt, sizeof(editor->prompt), "%s", prompt);
    *out = editor;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return status_ok();
    /* Without a locale of several bytes a character would be several. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    editor->edit = el_init("minisgl", stdin, stdout, stderr);
    if (!editor->edit)
        return status_ok(); /* then without editing */
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_PROMPT, prompt_of);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_SIGNAL, 0);
    open_history(editor);
    el_source(editor->edit, NULL);
    return status_ok();
}

void line_editor_close(struct line_editor **editor_ptr)
{
    struct line_editor *editor = *editor_ptr;
    HistEvent event;

    if (!editor)
        return;
    if (editor->history && editor->path[0]) {
        mode_t mask = umask(0077);
        history(editor->history, &event, H_SAVE, editor->path);
        umask(mask);
    }
    if (editor->edit)
        el_end(editor->edit);
    if (editor->history)
        history_end(editor->history);
    free(editor->text);
    free(editor);
    *editor_ptr = NULL;
}

bool line_editor_is_terminal(const struct line_editor *editor)
{
    return editor->edit != NULL;
}

static bool more_was_pasted(void)
{
    struct pollfd item = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&item, 1, PASTE_MS) > 0 && (item.revents & POLLIN);
}

static bool append(struct line_editor *editor, const char *line, size_t size)
{
    if (editor->size + size + 1 > editor->capacity) {
        size_t capacity = 2 * (editor->size + size + 1);
        char *text = realloc(editor->text, capacity);
        if (!text)
            return false;
        editor->text = text;
        editor->capacity = capacity;
    }
    memcpy(editor->text + editor->size, line, size);
    editor->size += size;
    editor->text[editor->size] = '\0';
    return true;
}

/* Takes off the line's end. */
static void trim(struct line_editor *editor)
{
    while (editor->size &&
           (editor->text[editor->size - 1] == '\n' || editor->text[editor->size - 1] == '\r'))
        editor->text[--editor->size] = '\0';
}

static enum line_result read_terminal(struct line_editor *editor)
{
    HistEvent event;

    editor->size = 0;
    editor->is_continued = false;
    do {
        int count = 0;
        errno = 0;
        const char *line = el_gets(editor->edit, &count);
        if (!line || count <= 0) {
            bool interrupted = errno == EINTR;
            const LineInfo *typed = el_line(editor->edit);
            size_t num_typed = (size_t)(typed->lastchar - typed->buffer);
            el_reset(editor->edit);
            if (editor->size && !interrupted)
                break;
            editor->size += num_typed;
            return interrupted ? LINE_INTERRUPTED : LINE_END;
        }
        if (!append(editor, line, (size_t)count))
            return LINE_END;
        editor->is_continued = true;
    } while (more_was_pasted());
    trim(editor);
    if (editor->history && editor->size && !strchr(editor->text, '\n'))
        history(editor->history, &event, H_ENTER, editor->text);
    return LINE_TEXT;
}

static enum line_result read_pipe(struct line_editor *editor)
{
    errno = 0;
    ssize_t size = getline(&editor->text, &editor->capacity, stdin);

    if (size < 0) {
        bool interrupted = errno == EINTR;
        clearerr(stdin);
        editor->size = 0;
        return interrupted ? LINE_INTERRUPTED : LINE_END;
    }
    editor->size = (size_t)size;
    trim(editor);
    return LINE_TEXT;
}

enum line_result line_editor_read(struct line_editor *editor, const char **out, size_t *out_size)
{
    enum line_result result = editor->edit ? read_terminal(editor) : read_pipe(editor);

    if (result == LINE_TEXT)
        *out = editor->text;
    if (result != LINE_END)
        *out_size = editor->size;
    return result;
}
