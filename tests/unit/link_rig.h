/*
 * link_rig.h - sockets over ipc in a directory of their own, for tests of the link: opened, written
 * to and read. What fails at that fails the test.
 */
#ifndef TESTS_UNIT_LINK_RIG_H
#define TESTS_UNIT_LINK_RIG_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proto/link.h"

enum { WAIT_MS = 60000 }; /* what has not come then does not come */

static char dir[64];
static char endpoint[96];

static inline void setup(void)
{
    snprintf(dir, sizeof(dir), "/tmp/minisgl-test-link.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/a", dir);
}

static inline void teardown(void)
{
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static inline struct link *open_at(enum link_kind kind, bool bind, const char *where,
                                   const struct client_id *identity)
{
    struct link *link = NULL;
    struct link_args args = {.kind = kind, .endpoint = where, .bind = bind, .identity = identity};
    struct status status = link_open(&args, &link);

    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    return link;
}

static inline struct client_id client_of(uint8_t n)
{
    return (struct client_id){.bytes = {n, 0, 0xff, n}};
}

/* Waits for the next frame; what else is open goes on in ZeroMQ's thread. */
static inline struct link_frame receive(struct link *link)
{
    struct link_poller *poller = NULL;
    struct link_frame frame;
    int64_t deadline_ns = clock_now_ns() + (int64_t)WAIT_MS * 1000000;

    ck_assert_int_eq(link_poller_open(&link, 1, &poller).code, STATUS_OK);
    while (!link_receive(link, &frame)) {
        ck_assert_msg(clock_now_ns() < deadline_ns, "no frame came");
        link_poller_wait(poller, 100);
    }
    link_poller_close(&poller);
    return frame;
}

static inline void expect(struct link *link, const char *text)
{
    struct link_frame frame = receive(link);

    ck_assert_uint_eq(frame.data.size, strlen(text));
    ck_assert_mem_eq(frame.data.data, text, frame.data.size);
}

static inline void send_text(struct link *link, const char *text)
{
    struct status status = link_send(link, text, strlen(text));
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
}

#endif
