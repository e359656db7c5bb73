/*
 * link_curve.c - see link_curve.h.
 *
 * ZeroMQ asks one authenticator per process which clients may enter, so it is shared by all links
 * that are bound with keys. Links open and close on one thread.
 */
#include "proto/link_curve.h"

enum { PATH_SIZE = 4096 };

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

/* The certificate of that name; an owned one holds its secret half too. */
static struct status load(const char *dir, const char *name, zcert_t **out)
{
    char path[PATH_SIZE];
    int size = snprintf(path, sizeof(path), "%s/%s.key", dir, name);

    if (size < 0 || (size_t)size >= sizeof(path))
        return status_error(STATUS_INVALID, "%.60s: the path is too long", dir);
    *out = zcert_load(path);
    if (!*out)
        return status_error(STATUS_NOT_FOUND, "%.90s: no CURVE certificate", path);
    return status_ok();
}

static struct status apply_server(zsock_t *sock, const char *dir, bool *out_uses_auth)
{
    struct status status = take_auth(dir);

    if (status.code)
        return status;
    *out_uses_auth = true;
    zsock_set_zap_domain(sock, "global");
    zsock_set_curve_server(sock, 1);
    return status_ok();
}

static struct status apply_client(zsock_t *sock, const struct link_args *args)
{
    zcert_t *server = NULL;
    struct status status = load(args->curve_keys, args->peer, &server);

    if (status.code == STATUS_OK)
        zsock_set_curve_serverkey(sock, zcert_public_txt(server));
    zcert_destroy(&server);
    return status;
}

struct status link_curve_apply(zsock_t *sock, const struct link_args *args, bool *out_uses_auth)
{
    zcert_t *own = NULL;
    struct status status = load(args->curve_keys, "own", &own);

    if (status.code)
        return status;
    zcert_apply(own, sock);
    zcert_destroy(&own);
    return args->bind ? apply_server(sock, args->curve_keys, out_uses_auth)
                      : apply_client(sock, args);
}
