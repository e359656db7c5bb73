/* test_req_table.c - requests by uid, by row and by client. */
#include "scheduler_proc/req_table.h"

#include "scheduler_proc/client_table.h"
#include "tests/unit/check_main.h"

enum { NUM_REQS = 300 };

static struct req *create(uint64_t uid)
{
    const int32_t id = 1, stop_id = 9;
    struct request_msg request = {
        .uid = uid,
        .input_ids = &id,
        .num_input_ids = 1,
        .sampling = {.num_stop_token_ids = 1, .stop_token_ids = &stop_id},
        .reply_to = {.data = (const uint8_t *)"abc", .size = 3},
    };
    struct req *req = NULL;

    ck_assert_int_eq(req_create(&request, 5, &req).code, STATUS_OK);
    return req;
}

START_TEST(a_request_is_a_copy)
{
    struct req *req = create(1);

    ck_assert_int_eq(req->prompt_len, 1);
    ck_assert_int_eq(req->max_device_len, 6);
    ck_assert_int_eq(req->input_ids[0], 1);
    ck_assert_int_eq(req->sampling.stop_token_ids[0], 9);
    ck_assert_int_eq((int)req->reply_to.size, 3);
    ck_assert_mem_eq(req->reply_to.data, "abc", 3);
    req_destroy(&req);
    ck_assert_ptr_null(req);
    req_destroy(&req);
}
END_TEST

START_TEST(uids_are_found_until_removed)
{
    struct req_table table;
    struct req *reqs[NUM_REQS];

    ck_assert_int_eq(req_table_init(&table, 4, NUM_REQS / 4).code, STATUS_OK); /* long chains */
    for (int i = 0; i < NUM_REQS; i++) {
        reqs[i] = create((uint64_t)(i % 2) << 48 | (uint64_t)(i + 1));
        ck_assert_ptr_null(req_table_find(&table, reqs[i]->uid));
        req_table_add(&table, reqs[i]);
    }
    ck_assert_int_eq(req_table_check(&table).code, STATUS_OK);
    for (int i = 0; i < NUM_REQS; i++)
        ck_assert_ptr_eq(req_table_find(&table, reqs[i]->uid), reqs[i]);
    for (int i = 0; i < NUM_REQS; i += 2)
        req_table_remove(&table, reqs[i]);
    for (int i = 0; i < NUM_REQS; i++)
        ck_assert_ptr_eq(req_table_find(&table, reqs[i]->uid), i % 2 ? reqs[i] : NULL);
    ck_assert_int_eq(req_table_check(&table).code, STATUS_OK);
    for (int i = 0; i < NUM_REQS; i++)
        req_destroy(&reqs[i]);
    req_table_deinit(&table);
}
END_TEST

START_TEST(rows_are_taken_and_given)
{
    struct req_table table;
    struct req *reqs[3] = {create(1), create(2), create(3)};

    ck_assert_int_eq(req_table_init(&table, 2, 3).code, STATUS_OK);
    for (int i = 0; i < 3; i++)
        req_table_add(&table, reqs[i]);
    req_table_take_row(&table, reqs[0]);
    req_table_take_row(&table, reqs[1]);
    ck_assert_int_eq(table.num_free_rows, 0);
    ck_assert_ptr_eq(table.rows[reqs[1]->table_idx], reqs[1]);
    ck_assert_int_eq(reqs[0]->table_idx + reqs[1]->table_idx, 1);
    req_table_give_row(&table, reqs[0]);
    ck_assert_int_eq(reqs[0]->table_idx, TABLE_IDX_NONE);
    req_table_take_row(&table, reqs[2]);
    ck_assert_int_eq(req_table_check(&table).code, STATUS_OK);
    table.free_rows[table.num_free_rows++] = 1; /* free and held */
    ck_assert_int_eq(req_table_check(&table).code, STATUS_INVALID);
    for (int i = 0; i < 3; i++)
        req_destroy(&reqs[i]);
    req_table_deinit(&table);
}
END_TEST

START_TEST(a_client_has_its_requests_in_order)
{
    struct client_table table;
    struct req *reqs[NUM_REQS];

    ck_assert_int_eq(client_table_init(&table, NUM_REQS).code, STATUS_OK);
    for (int i = 0; i < NUM_REQS; i++) {
        struct client_id id = {.bytes = {1, (uint8_t)(i % 7)}};
        reqs[i] = create((uint64_t)i + 1);
        client_table_add(&table, &id, reqs[i]);
    }
    ck_assert_int_eq(table.num_clients, 7);
    for (int i = 0; i < NUM_REQS; i += 3)
        client_table_remove(&table, reqs[i]);
    for (int client = 0; client < 7; client++) {
        const struct client_id id = {.bytes = {1, (uint8_t)client}};
        uint64_t last = 0;
        int num = 0, want = 0;
        for (int i = client; i < NUM_REQS; i += 7)
            want += i % 3 != 0;
        for (const struct req *req = client_table_find(&table, &id)->first; req;
             req = req->client_next, num++) {
            ck_assert_uint_gt(req->uid, last);
            ck_assert_int_eq((int)((req->uid - 1) % 7), client);
            last = req->uid;
        }
        ck_assert_int_eq(num, want);
    }
    for (int i = 0; i < NUM_REQS; i++) {
        if (i % 3 != 0)
            client_table_remove(&table, reqs[i]);
        req_destroy(&reqs[i]);
    }
    ck_assert_int_eq(table.num_clients, 0);
    ck_assert_ptr_null(client_table_find(&table, &(struct client_id){.bytes = {1, 3}}));
    client_table_deinit(&table);
}
END_TEST

START_TEST(many_clients_are_found_each)
{
    struct client_table table;
    struct req *reqs[NUM_REQS];

    ck_assert_int_eq(client_table_init(&table, NUM_REQS).code, STATUS_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < NUM_REQS; i++) {
            struct client_id id = {.bytes = {1, (uint8_t)i, (uint8_t)(i / 256)}};
            reqs[i] = create((uint64_t)i + 1);
            client_table_add(&table, &id, reqs[i]);
        }
        ck_assert_int_eq(table.num_clients, NUM_REQS);
        for (int i = 0; i < NUM_REQS; i++) {
            struct client_id id = {.bytes = {1, (uint8_t)i, (uint8_t)(i / 256)}};
            ck_assert_ptr_eq(client_table_find(&table, &id)->first, reqs[i]);
            client_table_remove(&table, reqs[i]);
            ck_assert_ptr_null(client_table_find(&table, &id));
            req_destroy(&reqs[i]);
        }
    }
    client_table_deinit(&table);
}
END_TEST

CHECK_MAIN("req_table", a_request_is_a_copy, uids_are_found_until_removed, rows_are_taken_and_given,
           a_client_has_its_requests_in_order, many_clients_are_found_each)
