/*
 * link_curve.c - see link_curve.h.
 *
 * ZeroMQ asks one authenticator per process which clients may enter, so it is shared by all links
 * that are bound with keys. Links open and close on one thread.
 */
#include "proto/link_curve.h"

static zactor_t *auth;
static int num_auth_users;

static struct status take_auth(const char *client_keys)
{
    if (!auth)
        auth = zactor_new(zauth, NULL);
    if (!auth)
        return status_error(STATUS_NO_MEMORY, "no CURVE authenticator");
    num_auth_users++;
    zstr_sendx(auth, "CURVE", client_keys, NULL);
    zsock_wait(auth);
    return status_ok();
}

void link_curve_give(void)
{
    if (--num_auth_users == 0)
        zactor_destroy(&auth);
}

static struct status load(const char *path, zcert_t **out)
{
    *out = zcert_load(path);
    if (!*out)
        return status_error(STATUS_NOT_FOUND, "%.90s: no CURVE certificate", path);
    return status_ok();
}

static struct status apply_server(zsock_t *sock, const struct link_args *args, bool *out_uses_auth)
{
    zcert_t *own = NULL;
    struct status status = load(args->curve_server_key, &own);

    if (status.code == STATUS_OK)
        status = take_auth(args->curve_client_keys);
    if (status.code == STATUS_OK) {
        *out_uses_auth = true;
        zcert_apply(own, sock);
        zsock_set_zap_domain(sock, "global");
        zsock_set_curve_server(sock, 1);
    }
    zcert_destroy(&own);
    return status;
}

static struct status apply_client(zsock_t *sock, const struct link_args *args)
{
    zcert_t *own = NULL, *server = NULL;
    struct status status = load(args->curve_client_keys, &own);

    if (status.code == STATUS_OK)
        status = load(args->curve_server_key, &server);
    if (status.code == STATUS_OK) {
        zcert_apply(own, sock);
        zsock_set_curve_serverkey(sock, zcert_public_txt(server));
    }
    zcert_destroy(&own);
    zcert_destroy(&server);
    return status;
}

struct status link_curve_apply(zsock_t *sock, const struct link_args *args, bool *out_uses_auth)
{
    if (!args->curve_client_keys)
        return status_error(STATUS_INVALID, "CURVE wants the server's and the client's keys");
    return args->bind ? apply_server(sock, args, out_uses_auth) : apply_client(sock, args);
}
