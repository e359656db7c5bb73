/*
 * link_endpoint.h - what may be bound and connected to: for proto/, and for checks of a command
 * line.
 *
 * ipc:// is guarded by the directory that it lies in, tcp:// on the loopback interface by the
 * host; beyond that only by CURVE.
 */
#ifndef PROTO_LINK_ENDPOINT_H
#define PROTO_LINK_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

bool link_endpoint_is_tcp(const char *endpoint);

/* STATUS_INVALID for what is neither ipc:// nor tcp://, for a path that does not fit into a socket
 * address, and for tcp:// beyond loopback unless has_keys. */
MUST_CHECK struct status link_endpoint_check(const char *endpoint, bool has_keys);

/*
 * Makes way for a bind: an ipc file that nobody listens on is removed. STATUS_BUSY when a living
 * process listens there, STATUS_INVALID when the path is no socket. Other endpoints: nothing to do.
 */
MUST_CHECK struct status link_endpoint_claim(const char *endpoint);

/* After a bind: the ipc file's inode, 0 when there is none. It tells, when the link is closed,
 * whether the file is still its own and may be removed: ZeroMQ leaves it behind. */
uint64_t link_endpoint_inode(const char *endpoint);
void link_endpoint_release(const char *endpoint, uint64_t inode);

#endif
