/* link_curve.h - keys for links beyond the loopback interface: inside proto/ only. */
#ifndef PROTO_LINK_CURVE_H
#define PROTO_LINK_CURVE_H

#include <czmq.h>

#include "proto/link.h"

/*
 * Gives a socket that is not yet bound or connected the keys of args. *out_uses_auth: it has a
 * share of the process's authenticator, to be given back with link_curve_give() behind its end.
 */
MUST_CHECK struct status link_curve_apply(zsock_t *sock, const struct link_args *args,
                                          bool *out_uses_auth);
void link_curve_give(void);

#endif
