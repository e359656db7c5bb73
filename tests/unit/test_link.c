/* test_link.c - sockets that never block, over ipc in a directory of their own. */
#include "proto/link.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <czmq.h>

#include "common/clock.h"
#include "tests/unit/check_main.h"
#include "tests/unit/link_rig.h"

START_TEST(frames_queue_before_anybody_is_there_and_keep_their_order)
{
    enum { FRAMES = 5000 }; /* more than ZeroMQ's pipes hold */
    char text[16];

    setup();
    struct link *push = open_at(LINK_PUSH, false, endpoint, NULL);
    for (int i = 0; i < FRAMES; i++) {
        snprintf(text, sizeof(text), "%d", i);
        send_text(push, text);
    }
    ck_assert(link_has_queued(push));
    ck_assert_uint_gt(link_queued_bytes(push), 0);
    struct link *pull = open_at(LINK_PULL, true, endpoint, NULL);
    for (int i = 0; i < FRAMES; i++) {
        snprintf(text, sizeof(text), "%d", i);
        link_flush(push);
        expect(pull, text);
    }
    ck_assert(!link_has_queued(push));
    ck_assert_uint_eq(link_queued_bytes(push), 0);
    link_close(&push, 0);
    link_close(&pull, 0);
    ck_assert_ptr_null(pull);
    teardown();
}
END_TEST

START_TEST(a_full_queue_refuses_and_stays_as_it_was)
{
    static char big[1 << 16];
    struct link *push = NULL;

    setup();
    struct link_args args = {.kind = LINK_PUSH,
                             .endpoint = endpoint,
                             .bind = true, /* nobody connects: all waits in the own queue */
                             .max_queue_bytes = 200 << 10};
    ck_assert_int_eq(link_open(&args, &push).code, STATUS_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(link_send(push, big, sizeof(big)).code, STATUS_OK);
    size_t queued = link_queued_bytes(push);
    ck_assert_int_eq(link_send(push, big, sizeof(big)).code, STATUS_NO_SPACE);
    ck_assert_uint_eq(link_queued_bytes(push), queued);
    ck_assert_int_eq(link_send(push, big, 10).code, STATUS_OK);
    link_close(&push, 0);
    teardown();
}
END_TEST

START_TEST(a_router_knows_its_peers)
{
    struct client_id id = client_of(1);
    struct client_id unknown = client_of(9);
    struct bytes peer = {.data = unknown.bytes, .size = sizeof(unknown.bytes)};

    setup();
    struct link *router = open_at(LINK_ROUTER, true, endpoint, NULL);
    struct link *dealer = open_at(LINK_DEALER, false, endpoint, &id);
    send_text(dealer, "hello");
    struct link_frame frame = receive(router);
    ck_assert_uint_eq(frame.peer.size, sizeof(id.bytes));
    ck_assert_mem_eq(frame.peer.data, id.bytes, sizeof(id.bytes));
    ck_assert_int_eq(link_send_to(router, &peer, "x", 1).code, STATUS_GONE);
    peer.data = id.bytes;
    ck_assert_int_eq(link_send_to(router, &peer, "world", 5).code, STATUS_OK);
    expect(dealer, "world");

    /* The same client again takes its place over; when it leaves it is gone. */
    struct link *again = open_at(LINK_DEALER, false, endpoint, &id);
    send_text(again, "me");
    expect(router, "me");
    ck_assert_int_eq(link_send_to(router, &peer, "2", 1).code, STATUS_OK);
    expect(again, "2");
    link_close(&dealer, 0);
    link_close(&again, 0);
    int64_t deadline_ns = clock_now_ns() + (int64_t)WAIT_MS * 1000000;
    while (link_send_to(router, &peer, "x", 1).code != STATUS_GONE) {
        ck_assert_int_lt(clock_now_ns(), deadline_ns);
        usleep(1000);
    }
    link_close(&router, 0);
    teardown();
}
END_TEST

/* A peer that does not read makes sends to it fail, soon, and to nobody else. */
START_TEST(would_block_means_slow)
{
    static char frame_bytes[4096];
    struct client_id slow_id = client_of(1), other_id = client_of(2);
    struct bytes slow_peer = {.data = slow_id.bytes, .size = sizeof(slow_id.bytes)};
    struct bytes other_peer = {.data = other_id.bytes, .size = sizeof(other_id.bytes)};
    int num_taken = 0;

    setup();
    struct link *router = open_at(LINK_ROUTER, true, endpoint, NULL);
    struct link *slow = open_at(LINK_DEALER, false, endpoint, &slow_id);
    struct link *other = open_at(LINK_DEALER, false, endpoint, &other_id);
    send_text(slow, "s");
    send_text(other, "o");
    receive(router);
    receive(router);
    int64_t start_ns = clock_now_ns();
    int refusals = 0;
    while (refusals < 20) { /* the I/O thread may still be moving: refused for good */
        enum status_code code =
            link_send_to(router, &slow_peer, frame_bytes, sizeof(frame_bytes)).code;
        ck_assert(code == STATUS_OK || code == STATUS_NO_SPACE);
        num_taken += code == STATUS_OK;
        refusals = code == STATUS_OK ? 0 : refusals + 1;
        if (code != STATUS_OK)
            usleep(1000);
        ck_assert_int_lt(clock_now_ns() - start_ns, (int64_t)WAIT_MS * 1000000);
    }
    printf("a peer that does not read took %d frames of %zu bytes\n", num_taken,
           sizeof(frame_bytes));
    ck_assert_int_eq(link_send_to(router, &other_peer, "quick", 5).code, STATUS_OK);
    expect(other, "quick");
    for (int i = 0; i < num_taken; i++)
        receive(slow); /* and nothing of what was taken is lost */
    struct link_frame frame;
    ck_assert(!link_receive(slow, &frame));
    link_close(&slow, 0);
    link_close(&other, 0);
    link_close(&router, 0);
    teardown();
}
END_TEST

/* At once, though ZeroMQ looks for room in a full pipe only now and then. */
START_TEST(a_peer_that_has_read_all_takes_more)
{
    enum { ROUNDS = 200, MAX_FRAMES = 2000 };
    struct client_id id = client_of(1);
    struct bytes peer = {.data = id.bytes, .size = sizeof(id.bytes)};

    setup();
    struct link *router = open_at(LINK_ROUTER, true, endpoint, NULL);
    struct link *dealer = open_at(LINK_DEALER, false, endpoint, &id);
    send_text(dealer, "hello");
    receive(router);
    for (int round = 0; round < ROUNDS; round++) {
        int num_taken = 0;
        while (num_taken < MAX_FRAMES && link_send_to(router, &peer, "x", 1).code == STATUS_OK)
            num_taken++;
        for (int i = 0; i < num_taken; i++)
            receive(dealer);
        ck_assert_int_eq(link_send_to(router, &peer, "y", 1).code, STATUS_OK);
        expect(dealer, "y");
    }
    link_close(&dealer, 0);
    link_close(&router, 0);
    teardown();
}
END_TEST

START_TEST(rep_answers_every_kind_of_asker)
{
    setup();
    struct link *rep = open_at(LINK_REP, true, endpoint, NULL);
    struct link *req = open_at(LINK_REQ, false, endpoint, NULL);
    zsock_t *strict = zsock_new_req(endpoint);

    for (int round = 0; round < 3; round++) {
        send_text(req, "ping");
        struct link_frame frame = receive(rep);
        ck_assert_int_eq(link_send_to(rep, &frame.peer, "pong", 4).code, STATUS_OK);
        expect(req, "pong");
        zstr_send(strict, "ping");
        frame = receive(rep);
        ck_assert_uint_eq(frame.data.size, 4);
        ck_assert_int_eq(link_send_to(rep, &frame.peer, "pang", 4).code, STATUS_OK);
        char *answer = zstr_recv(strict);
        ck_assert_str_eq(answer, "pang");
        zstr_free(&answer);
    }
    zsock_destroy(&strict);
    link_close(&req, 0);
    link_close(&rep, 0);
    teardown();
}
END_TEST

START_TEST(messages_of_several_parts_are_no_message)
{
    setup();
    struct link *router = open_at(LINK_ROUTER, true, endpoint, NULL);
    zsock_t *dealer = zsock_new_dealer(endpoint);
    zstr_sendx(dealer, "a", "b", "c", NULL);
    zstr_send(dealer, "whole");
    struct link_frame frame = receive(router);
    ck_assert_uint_eq(frame.data.size, 0);
    expect(router, "whole");
    zsock_destroy(&dealer);
    link_close(&router, 0);
    teardown();
}
END_TEST

START_TEST(a_served_ipc_path_is_not_taken_over)
{
    struct link *second = NULL;

    setup();
    struct link *first = open_at(LINK_PULL, true, endpoint, NULL);
    struct link_args args = {.kind = LINK_PULL, .endpoint = endpoint, .bind = true};
    ck_assert_int_eq(link_open(&args, &second).code, STATUS_BUSY);
    ck_assert_ptr_null(second);
    struct link *push = open_at(LINK_PUSH, false, endpoint, NULL);
    send_text(push, "still here");
    expect(first, "still here");
    link_close(&push, 0);
    link_close(&first, 0);
    ck_assert_int_ne(access(endpoint + 6, F_OK), 0); /* and nothing is left behind */
    teardown();
}
END_TEST

START_TEST(a_stale_ipc_file_is_replaced_and_another_file_is_not)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct link *link = NULL;

    setup();
    memcpy(address.sun_path, endpoint + 6, strlen(endpoint + 6));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* bound, and left behind as by kill -9 */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    link = open_at(LINK_PULL, true, endpoint, NULL);
    link_close(&link, 0);

    char path[96];
    snprintf(path, sizeof(path), "ipc://%s/file", dir);
    FILE *file = fopen(path + 6, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    struct link_args args = {.kind = LINK_PULL, .endpoint = path, .bind = true};
    ck_assert_int_eq(link_open(&args, &link).code, STATUS_INVALID);
    ck_assert_int_eq(access(path + 6, F_OK), 0);
    teardown();
}
END_TEST

START_TEST(endpoints_beyond_loopback_want_keys)
{
    static const char *const refused[] = {"tcp://*:5555",
                                          "tcp://0.0.0.0:*",
                                          "tcp://192.168.1.2:1",
                                          "tcp://eth0:1",
                                          "tcp://127.evil.org:80",
                                          "tcp://localhost.evil.org:80",
                                          "tcp://1.2.3.4;127.0.0.1.x:9",
                                          "pgm://1.2.3.4:5",
                                          "inproc://x",
                                          "ipc://",
                                          "tcp://127.0.0.1"};
    char long_path[200] = "ipc:///tmp/";

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct link *link = NULL;
        struct link_args args = {.kind = LINK_PULL, .endpoint = refused[i], .bind = true};
        ck_assert_msg(link_open(&args, &link).code == STATUS_INVALID, "%s", refused[i]);
    }
    memset(long_path + 11, 'x', 150);
    struct link *link = NULL;
    struct link_args args = {.kind = LINK_PULL, .endpoint = long_path, .bind = true};
    ck_assert_int_eq(link_open(&args, &link).code, STATUS_INVALID);

    struct link *pull = open_at(LINK_PULL, true, "tcp://127.0.0.1:*", NULL);
    ck_assert_ptr_null(strchr(link_endpoint(pull), '*'));
    struct link *push = open_at(LINK_PUSH, false, link_endpoint(pull), NULL);
    send_text(push, "over tcp");
    expect(pull, "over tcp");
    link_close(&push, 0);
    link_close(&pull, 0);
}
END_TEST

/* A folder with a key pair of its own, and the public halves of those that it knows. */
static void make_keys(const char *name, char *out_folder, size_t size, zcert_t *own,
                      const char *const *names, zcert_t *const *known)
{
    char path[160];

    snprintf(out_folder, size, "%s/%s", dir, name);
    ck_assert_int_eq(mkdir(out_folder, 0700), 0);
    snprintf(path, sizeof(path), "%s/own.key", out_folder);
    ck_assert_int_eq(zcert_save(own, path), 0);
    for (; *names; names++, known++) {
        snprintf(path, sizeof(path), "%s/%s.key", out_folder, *names);
        ck_assert_int_eq(zcert_save_public(*known, path), 0);
    }
}

START_TEST(curve_lets_known_clients_in_and_no_others)
{
    char server_keys[96], client_keys[96], stranger_keys[96], where[64];
    struct link *pull = NULL, *push = NULL, *stranger = NULL, *none = NULL;
    struct link_frame frame;

    if (!zsys_has_curve())
        return;
    setup();
    zcert_t *server = zcert_new(), *client = zcert_new(), *other = zcert_new();
    make_keys("server", server_keys, sizeof(server_keys), server,
              (const char *const[]){"client", NULL}, (zcert_t *const[]){client});
    make_keys("client", client_keys, sizeof(client_keys), client,
              (const char *const[]){"scheduler", NULL}, (zcert_t *const[]){server});
    make_keys("stranger", stranger_keys, sizeof(stranger_keys), other,
              (const char *const[]){"scheduler", NULL}, (zcert_t *const[]){server});
    char again[160]; /* the same key under another name is no fault */
    snprintf(again, sizeof(again), "%s/server.key", server_keys);
    ck_assert_int_eq(zcert_save_public(server, again), 0);
    struct link_args bind_args = {
        .kind = LINK_PULL, .endpoint = "tcp://0.0.0.0:*", .bind = true, .curve_keys = server_keys};
    struct status status = link_open(&bind_args, &pull);
    ck_assert_msg(status.code == STATUS_OK, "%s", status.msg);
    snprintf(where, sizeof(where), "tcp://127.0.0.1:%s", strrchr(link_endpoint(pull), ':') + 1);
    struct link_args args = {
        .kind = LINK_PUSH, .endpoint = where, .curve_keys = stranger_keys, .peer = "scheduler"};
    ck_assert_int_eq(link_open(&args, &stranger).code, STATUS_OK);
    send_text(stranger, "let me in");
    args.curve_keys = client_keys;
    ck_assert_int_eq(link_open(&args, &push).code, STATUS_OK);
    send_text(push, "it is me");
    expect(pull, "it is me");
    usleep(200000); /* long enough for a frame that must not come */
    ck_assert(!link_receive(pull, &frame));
    struct link *plain = open_at(LINK_PUSH, false, where, NULL);
    send_text(plain, "no keys");
    usleep(200000);
    ck_assert(!link_receive(pull, &frame));

    char secret[160];
    snprintf(secret, sizeof(secret), "%s/own.key_secret", client_keys);
    ck_assert_int_eq(unlink(secret), 0);
    status = link_open(&args, &none);
    ck_assert_int_eq(status.code, STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(status.msg, "own.key_secret"));
    args.curve_keys = stranger_keys;
    args.peer = "nobody";
    ck_assert_int_eq(link_open(&args, &none).code, STATUS_NOT_FOUND);
    link_close(&plain, 0);
    link_close(&stranger, 0);
    link_close(&push, 0);
    link_close(&pull, 0);
    zcert_destroy(&server);
    zcert_destroy(&client);
    zcert_destroy(&other);
    teardown();
}
END_TEST

START_TEST(closing_delivers_what_it_can_and_never_hangs)
{
    char text[16];

    setup();
    char nowhere[96];
    snprintf(nowhere, sizeof(nowhere), "ipc://%s/nobody", dir);
    struct link *push = open_at(LINK_PUSH, false, nowhere, NULL);
    send_text(push, "nobody hears this");
    int64_t start_ns = clock_now_ns();
    link_close(&push, 300);
    ck_assert_int_lt(clock_now_ns() - start_ns, (int64_t)WAIT_MS * 1000000);

    struct link *pull = open_at(LINK_PULL, true, endpoint, NULL);
    push = open_at(LINK_PUSH, false, endpoint, NULL);
    for (int i = 0; i < 900; i++) {
        snprintf(text, sizeof(text), "%d", i);
        send_text(push, text);
    }
    link_close(&push, WAIT_MS); /* lingers behind the back */
    for (int i = 0; i < 900; i++) {
        snprintf(text, sizeof(text), "%d", i);
        expect(pull, text);
    }
    link_close(&pull, 0);
    teardown();
}
END_TEST

static int64_t cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

START_TEST(an_idle_wait_costs_nothing)
{
    struct link_poller *poller = NULL;
    struct link *links[2];

    setup();
    links[0] = open_at(LINK_ROUTER, true, endpoint, NULL);
    char nowhere[96];
    snprintf(nowhere, sizeof(nowhere), "ipc://%s/nobody", dir);
    links[1] = open_at(LINK_PUSH, false, nowhere, NULL);
    for (int i = 0; i < 1100; i++)
        send_text(links[1], "waits"); /* even with a queue that cannot go out */
    ck_assert(link_has_queued(links[1]));
    ck_assert_int_eq(link_poller_open(links, 2, &poller).code, STATUS_OK);
    int64_t cpu_start_ns = cpu_ns();
    int64_t start_ns = clock_now_ns();
    link_poller_wait(poller, 1000);
    ck_assert_int_ge(clock_now_ns() - start_ns, 900000000);
    ck_assert_int_lt(cpu_ns() - cpu_start_ns, 50000000);
    link_poller_close(&poller);
    link_close(&links[0], 0);
    link_close(&links[1], 0);
    teardown();
}
END_TEST

START_TEST(a_descriptor_ends_a_wait)
{
    struct link_poller *poller = NULL;
    int fds[2];

    setup();
    struct link *pull = open_at(LINK_PULL, true, endpoint, NULL);
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(link_poller_open(&pull, 1, &poller).code, STATUS_OK);
    link_poller_watch(poller, fds[0]);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    int64_t start_ns = clock_now_ns();
    link_poller_wait(poller, WAIT_MS);
    ck_assert_int_lt(clock_now_ns() - start_ns, (int64_t)WAIT_MS * 1000000 / 2);
    link_poller_close(&poller);
    link_close(&pull, 0);
    close(fds[0]);
    close(fds[1]);
    teardown();
}
END_TEST

START_TEST(a_signal_ends_a_wait)
{
    struct link_poller *poller = NULL;

    setup();
    link_catch_signals();
    struct link *pull = open_at(LINK_PULL, true, endpoint, NULL); /* starts CZMQ: not its handler */
    ck_assert_int_eq(link_poller_open(&pull, 1, &poller).code, STATUS_OK);
    ck_assert(!link_interrupted());
    raise(SIGTERM); /* before the wait: the moment that a flag alone would miss */
    int64_t start_ns = clock_now_ns();
    link_poller_wait(poller, WAIT_MS);
    ck_assert_int_lt(clock_now_ns() - start_ns, (int64_t)WAIT_MS * 1000000 / 2);
    ck_assert(link_interrupted());
    raise(SIGINT); /* another kind is no impatience */
    link_poller_wait(poller, 0);
    start_ns = clock_now_ns();
    link_poller_wait(poller, 100); /* and a signal that was seen wakes nobody again */
    ck_assert_int_ge(clock_now_ns() - start_ns, 90000000);
    link_poller_close(&poller);
    link_close(&pull, 0);
    teardown();
}
END_TEST

CHECK_MAIN("link", frames_queue_before_anybody_is_there_and_keep_their_order,
           a_full_queue_refuses_and_stays_as_it_was, a_router_knows_its_peers,
           would_block_means_slow, a_peer_that_has_read_all_takes_more,
           rep_answers_every_kind_of_asker, messages_of_several_parts_are_no_message,
           a_served_ipc_path_is_not_taken_over,
           a_stale_ipc_file_is_replaced_and_another_file_is_not,
           endpoints_beyond_loopback_want_keys, curve_lets_known_clients_in_and_no_others,
           closing_delivers_what_it_can_and_never_hangs, an_idle_wait_costs_nothing,
           a_descriptor_ends_a_wait, a_signal_ends_a_wait)
