/* link_poller.c - waits for frames, for room to send what is queued, and for signals. */
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "proto/link.h"
#include "proto/link_internal.h"
#include "proto/link_signals.h"

enum { MAX_LINKS = 8 };

struct link_poller {
    struct link *links[MAX_LINKS]; /* borrowed */
    size_t num_links;
    int fd; /* borrowed; -1: none */
};

struct status link_poller_open(struct link **links, size_t num_links, struct link_poller **out)
{
    if (num_links > MAX_LINKS)
        return status_error(STATUS_INVALID, "a poller waits for %d links, not %zu", MAX_LINKS,
                            num_links);
    struct link_poller *poller = calloc(1, sizeof(*poller));
    if (!poller)
        return status_error(STATUS_NO_MEMORY, "no memory for a poller");
    memcpy(poller->links, links, num_links * sizeof(*links));
    poller->num_links = num_links;
    poller->fd = -1;
    *out = poller;
    return status_ok();
}

void link_poller_close(struct link_poller **poller)
{
    free(*poller);
    *poller = NULL;
}

void link_poller_watch(struct link_poller *poller, int fd)
{
    poller->fd = fd;
}

void link_poller_wait(struct link_poller *poller, int timeout_ms)
{
    zmq_pollitem_t items[MAX_LINKS + 2] = {0};
    size_t num_items = poller->num_links;
    int signals_fd = link_signals_fd();

    for (size_t i = 0; i < poller->num_links; i++) {
        short out = link_has_queued(poller->links[i]) ? ZMQ_POLLOUT : 0;
        items[i] = (zmq_pollitem_t){.socket = link_handle(poller->links[i]),
                                    .events = (short)(ZMQ_POLLIN | out)};
    }
    if (poller->fd >= 0)
        items[num_items++] = (zmq_pollitem_t){.fd = poller->fd, .events = ZMQ_POLLIN};
    if (signals_fd >= 0)
        items[num_items++] = (zmq_pollitem_t){.fd = signals_fd, .events = ZMQ_POLLIN};
    if (zmq_poll(items, (int)num_items, timeout_ms) <= 0)
        return; /* nothing, or a signal between */
    if (signals_fd >= 0 && items[num_items - 1].revents)
        link_signals_drain();
    for (size_t i = 0; i < poller->num_links; i++) {
        if (items[i].revents & ZMQ_POLLOUT)
            link_flush(poller->links[i]);
    }
}
