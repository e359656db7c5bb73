/*
 * line_editor.h - lines from a person, with editing and history on a terminal; from a pipe as they
 * come. No other file knows libedit.
 */
#ifndef TOOLS_CLIENT_LINE_EDITOR_H
#define TOOLS_CLIENT_LINE_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct line_editor; /* opaque */

enum line_result { LINE_TEXT, LINE_END, LINE_INTERRUPTED };

/* prompt: at most 15 bytes. The history is kept in $XDG_STATE_HOME/minisgl/chat_history (or
 * ~/.local/state).
 */
MUST_CHECK struct status line_editor_open(const char *prompt, struct line_editor **out);
void line_editor_close(struct line_editor **editor);

/* Whether a person sits in front of it. */
bool line_editor_is_terminal(const struct line_editor *editor);

/* The next line without its end, borrowed until the next call; lines that were pasted together come
 * as one. LINE_END: Ctrl-D, or the end of the pipe. LINE_INTERRUPTED: *out_size bytes were typed,
 * and are dropped. */
enum line_result line_editor_read(struct line_editor *editor, const char **out, size_t *out_size);

#endif
