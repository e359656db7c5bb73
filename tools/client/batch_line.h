/* batch_line.h - a line of `batch`, as a generate message. */
#ifndef TOOLS_CLIENT_BATCH_LINE_H
#define TOOLS_CLIENT_BATCH_LINE_H

#include "common/json.h"
#include "tools/client/client.h"

/*
 * {"id", "prompt" | "messages" | "input_ids", "max_tokens", "temperature", "top_k", "top_p",
 *  "min_p", "seed", "stop", "ignore_eos"}
 *
 * *out_id: its id, or NULL. out_msg borrows from the line and the arena. STATUS_INVALID and
 * STATUS_FORMAT name the key at fault; *out_id is then set if it could be read.
 */
MUST_CHECK struct status batch_line_parse(const char *line, size_t size, struct arena *arena,
                                          const struct json_value **out_id,
                                          struct generate_msg *out_msg);

#endif
