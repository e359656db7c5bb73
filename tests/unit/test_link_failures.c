/* test_link_failures.c - calls of libzmq that are cut short by a signal, or find no memory. */
#include "proto/link.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <czmq.h>

#include "tests/unit/check_main.h"
#include "tests/unit/link_rig.h"

/* libzmq's calls stand behind those below, which a signal seems to cut short every other time, and
 * for which memory seems to be short. */
static bool are_calls_interrupted, is_memory_short;

static bool is_interrupted(int *num_calls)
{
    if (!are_calls_interrupted || (*num_calls)++ % 2)
        return false;
    errno = EINTR;
    return true;
}

/* libzmq's function of that name, which stands behind the test's. */
static void find_behind(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    memcpy(function, &symbol, sizeof(symbol)); /* ISO C casts no pointer to a function */
}

/* A message that is small takes no memory. */
int zmq_msg_init_size(zmq_msg_t *msg, size_t size)
{
    int (*init_size)(zmq_msg_t *, size_t);

    if (is_memory_short && size > sizeof(*msg)) {
        errno = ENOMEM;
        return -1;
    }
    find_behind("zmq_msg_init_size", &init_size);
    return init_size(msg, size);
}

int zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    static int num_calls;
    int (*send_msg)(zmq_msg_t *, void *, int);

    if (is_interrupted(&num_calls))
        return -1;
    find_behind("zmq_msg_send", &send_msg);
    return send_msg(msg, socket, flags);
}

int zmq_msg_recv(zmq_msg_t *msg, void *socket, int flags)
{
    static int num_calls;
    int (*receive_msg)(zmq_msg_t *, void *, int);

    if (is_interrupted(&num_calls))
        return -1;
    find_behind("zmq_msg_recv", &receive_msg);
    return receive_msg(msg, socket, flags);
}

/* What there is no memory to send leaves nothing behind for the next message to go on with. */
START_TEST(short_memory_sends_nothing_to_the_wrong_peer)
{
    static const char text[] = "longer than what a message holds without memory of its own, by far";
    const struct client_id ids[] = {client_of(1), client_of(2)};
    struct link *dealers[2];

    setup();
    struct link *router = open_at(LINK_ROUTER, true, endpoint, NULL);
    for (int i = 0; i < 2; i++) {
        dealers[i] = open_at(LINK_DEALER, false, endpoint, &ids[i]);
        send_text(dealers[i], "hello");
        expect(router, "hello");
    }
    for (int i = 0; i < 2; i++) {
        struct bytes peer = {.data = ids[i].bytes, .size = sizeof(ids[i].bytes)};

        is_memory_short = true;
        ck_assert_int_eq(link_send_to(router, &peer, text, strlen(text)).code, STATUS_NO_SPACE);
        is_memory_short = false;
        peer.data = ids[1 - i].bytes;
        ck_assert_int_eq(link_send_to(router, &peer, text, strlen(text)).code, STATUS_OK);
        expect(dealers[1 - i], text);
    }
    for (int i = 0; i < 2; i++)
        link_close(&dealers[i], 0);
    link_close(&router, 0);
    teardown();
}
END_TEST

/* To the peers it looks as if there had been none: no answer is lost, no part of a message. */
START_TEST(interrupted_calls_are_made_again)
{
    setup();
    struct link *rep = open_at(LINK_REP, true, endpoint, NULL);
    zsock_t *strict = zsock_new_req(endpoint); /* an empty part before the frame */

    for (int round = 0; round < 3; round++) {
        zstr_send(strict, "ping");
        are_calls_interrupted = true;
        struct link_frame frame = receive(rep);
        ck_assert_uint_eq(frame.data.size, 4);
        ck_assert_int_eq(link_send_to(rep, &frame.peer, "pong", 4).code, STATUS_OK);
        are_calls_interrupted = false; /* CZMQ's own, in the test */
        char *answer = zstr_recv(strict);
        ck_assert_str_eq(answer, "pong");
        zstr_free(&answer);
    }
    zsock_destroy(&strict);
    link_close(&rep, 0);
    teardown();
}
END_TEST

CHECK_MAIN("link_failures", short_memory_sends_nothing_to_the_wrong_peer,
           interrupted_calls_are_made_again)
