/* control.h - one exchange with the control endpoint of one of the server's processes. */
#ifndef TOOLS_CLIENT_CONTROL_H
#define TOOLS_CLIENT_CONTROL_H

#include "common/status.h"
#include "proto/messages.h"

/*
 * Sends the command and waits for its answer. *out is the info of that (JSON text, "" if none),
 * malloc'ed; the caller frees. STATUS_GONE when none comes in time, STATUS_INVALID with the
 * process's words when it says no.
 */
MUST_CHECK struct status control_ask(const char *endpoint, const struct control_msg *control,
                                     int timeout_ms, char **out);

#endif
