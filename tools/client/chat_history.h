/* chat_history.h - what has been said so far, as the JSON text that a chat request takes. */
#ifndef TOOLS_CLIENT_CHAT_HISTORY_H
#define TOOLS_CLIENT_CHAT_HISTORY_H

#include "common/json.h"
#include "proto/messages.h"

struct chat_history {
    struct json_writer text; /* an array that is not closed: [{...},{...} */
};

void chat_history_deinit(struct chat_history *history);
void chat_history_clear(struct chat_history *history);
/* text is UTF-8; what is not becomes U+FFFD. */
void chat_history_add(struct chat_history *history, const char *role, const char *text,
                      size_t size);
/* The array, borrowed until the next change. */
struct bytes chat_history_messages(struct chat_history *history);
/* Takes back what was added since size was history->text.size. */
void chat_history_cut(struct chat_history *history, size_t size);

#endif
