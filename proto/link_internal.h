/* link_internal.h - what the poller needs of a link: inside proto/ only. */
#ifndef PROTO_LINK_INTERNAL_H
#define PROTO_LINK_INTERNAL_H

struct link;

/* The libzmq socket. */
void *link_handle(const struct link *link);

#endif
