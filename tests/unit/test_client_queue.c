/* test_client_queue.c - jobs are done in any order and leave in that of their arrival. */
#include "tokenizer_proc/client_queue.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/check_main.h"

static struct client_queues queues;

static struct bytes peer_of(const uint32_t *number)
{
    return (struct bytes){.data = (const uint8_t *)number, .size = sizeof(*number)};
}

static struct client_queue *take(uint32_t number)
{
    struct client_queue *queue = client_queue_take(&queues, peer_of(&number));

    ck_assert_ptr_nonnull(queue);
    return queue;
}

static void hold(struct client_queue *queue, const char *text, int64_t now_ns)
{
    struct bytes answer = {.data = (const uint8_t *)text, .size = strlen(text)};
    ck_assert_int_eq(client_queue_hold(&queues, queue, answer, now_ns).code, STATUS_OK);
}

START_TEST(jobs_leave_in_the_order_of_their_arrival)
{
    struct job jobs[3] = {0};
    struct client_queue *queue = take(1);

    for (int i = 0; i < 3; i++)
        client_queue_append(queue, &jobs[i]);
    ck_assert_ptr_null(client_queue_pop_done(queue));
    jobs[1].is_done = jobs[2].is_done = true;
    ck_assert_ptr_null(client_queue_pop_done(queue)); /* the first is not done */
    jobs[0].is_done = true;
    client_queue_give(&queues, queue); /* not empty: stays */
    ck_assert_uint_eq(queues.num_queues, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(client_queue_pop_done(queue), &jobs[i]);
    ck_assert_ptr_null(client_queue_pop_done(queue));
    client_queue_give(&queues, queue);
    ck_assert_uint_eq(queues.num_queues, 0);
    ck_assert_ptr_null(queues.newest);
}
END_TEST

START_TEST(answers_wait_in_order)
{
    struct client_queue *queue = take(1);

    hold(queue, "first", 10);
    hold(queue, "second", 20);
    ck_assert_uint_eq(queues.num_blocked, 1);
    ck_assert_uint_eq(queues.num_unsent, 2);
    ck_assert_uint_eq(queue->num_unsent, 2);
    ck_assert_uint_eq(queue->unsent_bytes, 11 + 2 * CLIENT_ANSWER_OVERHEAD);
    ck_assert_int_eq(queue->unsent_since_ns, 10);
    ck_assert_mem_eq(client_queue_unsent(queue).data, "first", 5);
    client_queue_drop_unsent(&queues, queue, 50); /* it reads along: its time begins anew */
    ck_assert_int_eq(queue->unsent_since_ns, 50);
    ck_assert_mem_eq(client_queue_unsent(queue).data, "second", 6);
    client_queue_drop_unsent(&queues, queue, 60);
    ck_assert_uint_eq(client_queue_unsent(queue).size, 0);
    ck_assert_uint_eq(queues.num_blocked, 0);
    client_queue_drop_unsent(&queues, queue, 70); /* of nothing: nothing */
    ck_assert_uint_eq(queue->unsent_bytes, 0);
    client_queue_give(&queues, queue);
    ck_assert_uint_eq(queues.num_queues, 0);
}
END_TEST

/* Many clients, more than buckets, found again and given back in another order. */
START_TEST(clients_are_told_apart)
{
    enum { NUM_CLIENTS = 5 * CLIENT_NUM_BUCKETS };
    static struct job jobs[NUM_CLIENTS];
    uint8_t long_peer[CLIENT_MAX_PEER_BYTES + 1] = {0};
    uint32_t num_listed = 0;

    for (uint32_t i = 0; i < NUM_CLIENTS; i++) {
        jobs[i] = (struct job){.is_done = true};
        client_queue_append(take(i), &jobs[i]);
    }
    ck_assert_uint_eq(queues.num_queues, NUM_CLIENTS);
    for (struct client_queue *queue = queues.newest; queue; queue = queue->older)
        num_listed++;
    ck_assert_uint_eq(num_listed, NUM_CLIENTS);
    for (uint32_t i = 0; i < NUM_CLIENTS; i++) {
        uint32_t number = i * 7 % NUM_CLIENTS;
        struct client_queue *queue = take(number);

        ck_assert_mem_eq(client_queue_peer(queue).data, &number, sizeof(number));
        ck_assert_ptr_eq(client_queue_pop_done(queue), &jobs[number]);
        client_queue_give(&queues, queue);
    }
    ck_assert_uint_eq(queues.num_queues, 0);
    ck_assert_ptr_null(client_queue_take(&queues, (struct bytes){long_peer, sizeof(long_peer)}));
}
END_TEST

START_TEST(deinit_frees_what_is_left)
{
    struct job job = {0};

    hold(take(1), "never sent", 1);
    client_queue_append(take(2), &job);
    client_queues_deinit(&queues);
    ck_assert_uint_eq(queues.num_queues, 0);
    ck_assert_uint_eq(queues.num_blocked, 0);
    ck_assert_uint_eq(queues.num_unsent, 0);
    ck_assert_uint_eq(queues.unsent_bytes, 0);
}
END_TEST

CHECK_MAIN("client_queue", jobs_leave_in_the_order_of_their_arrival, answers_wait_in_order,
           clients_are_told_apart, deinit_frees_what_is_left)
