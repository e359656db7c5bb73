/*
 * link_curve.c - see link_curve.h.
 *
 * ZeroMQ asks one authenticator per process which clients may enter, so it is shared by all links
 * that are bound with keys. Links open and close on one thread. The keys are read once: zauth, left
 * alone with a directory, follows its changes, and asserts that no key is in it twice.
 */
#include "proto/link_curve.h"

#include <dirent.h>

enum { PATH_SIZE = 240, SECRET_SIZE = 32 }; /* zcert adds "_secret" in a buffer of 256 */

static zactor_t *auth;
static int num_auth_users;

/* The certificate DIR/NAME, or NULL. */
static zcert_t *load_file(const char *dir, const char *name)
{
    char path[PATH_SIZE];
    int size = snprintf(path, sizeof(path), "%s/%s", dir, name);

    return size < 0 || (size_t)size >= sizeof(path) ? NULL : zcert_load(path);
}

static struct status load(const char *dir, const char *name, zcert_t **out)
{
    char file[64];

    snprintf(file, sizeof(file), "%s.key", name);
    *out = load_file(dir, file);
    if (!*out)
        return status_context(status_error(STATUS_NOT_FOUND, "no CURVE certificate %s", file), dir);
    return status_ok();
}

/* All certificates of the directory, each key once; NULL: no memory. */
static zcertstore_t *read_store(const char *dir)
{
    zcertstore_t *store = zcertstore_new(NULL);
    DIR *entries = opendir(dir);
    struct dirent *entry;

    while (store && entries && (entry = readdir(entries))) {
        const char *suffix = strrchr(entry->d_name, '.');
        zcert_t *cert =
            suffix && strcmp(suffix, ".key") == 0 ? load_file(dir, entry->d_name) : NULL;
        if (cert && !zcertstore_lookup(store, zcert_public_txt(cert)))
            zcertstore_insert(store, &cert);
        zcert_destroy(&cert);
    }
    if (entries)
        closedir(entries);
    return store;
}

static struct status take_auth(const char *dir)
{
    zcertstore_t *store = auth ? NULL : read_store(dir);

    if (!auth && store)
        auth = zactor_new(zauth, store); /* the actor owns the store */
    if (!auth) {
        zcertstore_destroy(&store);
        return status_error(STATUS_NO_MEMORY, "no CURVE authenticator");
    }
    num_auth_users++;
    return status_ok();
}

void link_curve_give(void)
{
    if (--num_auth_users == 0)
        zactor_destroy(&auth);
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
    static const byte no_secret[SECRET_SIZE];
    zcert_t *own = NULL;
    struct status status = load(args->curve_keys, "own", &own);

    if (!status.code && memcmp(zcert_secret_key(own), no_secret, SECRET_SIZE) == 0)
        status = status_context(status_error(STATUS_NOT_FOUND, "own.key_secret: no secret key"),
                                args->curve_keys);
    if (status.code) {
        zcert_destroy(&own);
        return status;
    }
    zcert_apply(own, sock);
    zcert_destroy(&own);
    return args->bind ? apply_server(sock, args->curve_keys, out_uses_auth)
                      : apply_client(sock, args);
}
