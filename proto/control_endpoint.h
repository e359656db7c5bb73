/*
 * control_endpoint.h - the control endpoint of a process: reads commands, answers each one.
 *
 * ping and log_level mean the same in every process and are answered here; the others are handed to
 * the process. A zero endpoint is one that nobody asked for: it takes nothing and costs nothing.
 */
#ifndef PROTO_CONTROL_ENDPOINT_H
#define PROTO_CONTROL_ENDPOINT_H

#include "common/arena.h"
#include "common/json.h"
#include "proto/link.h"
#include "proto/messages_codec.h"

struct control_endpoint {
    struct link *link;         /* owned; NULL: there is none */
    struct arena arena;        /* of one command */
    struct frame_buffer frame; /* owned: its answer */
    struct json_writer info;   /* owned: what a command tells */
};

/*
 * Does what any other command asks. info is empty; what stands in it afterwards is JSON and goes
 * with the answer. An error is answered with its words.
 */
typedef struct status (*control_obey)(void *process, enum control_command command,
                                      struct json_writer *info);

/* Binds it; address NULL leaves a zero. A failed open does too, and close takes a zero. */
MUST_CHECK struct status control_endpoint_open(struct control_endpoint *endpoint,
                                               const char *address);
void control_endpoint_close(struct control_endpoint *endpoint);

/* Where it is bound; "" when there is none. */
const char *control_endpoint_address(const struct control_endpoint *endpoint);

/* Answers what has arrived, a bounded number of commands; process is handed to obey. */
void control_endpoint_turn(struct control_endpoint *endpoint, control_obey obey, void *process);

#endif
