/*
 * link_endpoint.c - see link_endpoint.h.
 *
 * ZeroMQ removes whatever file stands where it is to bind, a living server's socket included. So
 * the file is tried first: a connection that is taken, or that waits in a full backlog, means
 * somebody is there; one that is refused means that the process is gone and left it behind.
 */
#include "proto/link_endpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char ipc_prefix[] = "ipc://";
static const char tcp_prefix[] = "tcp://";

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool link_endpoint_is_tcp(const char *endpoint)
{
    return has_prefix(endpoint, tcp_prefix);
}

/* tcp://[source;]host:port */
static bool is_loopback(const char *endpoint)
{
    const char *host = endpoint + strlen(tcp_prefix);
    const char *source_end = strchr(host, ';');
    const char *port = strrchr(host, ':');
    size_t size;

    if (source_end)
        host = source_end + 1;
    if (!port || port < host)
        return false;
    size = (size_t)(port - host);
    return (size == 9 && strncmp(host, "localhost", size) == 0) ||
           (size == 5 && strncmp(host, "[::1]", size) == 0) ||
           (size >= 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == size);
}

struct status link_endpoint_check(const char *endpoint, bool has_keys)
{
    struct sockaddr_un address;

    if (has_prefix(endpoint, ipc_prefix)) {
        size_t size = strlen(endpoint + strlen(ipc_prefix));
        if (size == 0 || size >= sizeof(address.sun_path))
            return status_error(STATUS_INVALID, "%.60s: the path must have 1 to %zu bytes, not %zu",
                                endpoint, sizeof(address.sun_path) - 1, size);
        return status_ok();
    }
    if (!link_endpoint_is_tcp(endpoint))
        return status_error(STATUS_INVALID, "%.60s: an endpoint is ipc://PATH or tcp://HOST:PORT",
                            endpoint);
    if (!has_keys && !is_loopback(endpoint))
        return status_error(
            STATUS_INVALID,
            "%.60s: tcp beyond 127.0.0.1 is only spoken with CURVE keys (--curve-keys)", endpoint);
    return status_ok();
}

/* 0: somebody listens; else the errno of the try. */
static int try_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return errno;
    memcpy(address.sun_path, path, strlen(path)); /* fits: link_endpoint_check() has seen it */
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        error = errno;
    close(fd);
    return error;
}

struct status link_endpoint_claim(const char *endpoint)
{
    const char *path = endpoint + strlen(ipc_prefix);
    struct stat info;

    if (!has_prefix(endpoint, ipc_prefix) || path[0] == '@')
        return status_ok();
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? status_ok() : status_errno(errno, path);
    if (!S_ISSOCK(info.st_mode))
        return status_error(STATUS_INVALID, "%.90s: is there and is no socket", path);
    int error = try_connect(path);
    if (error == 0 || error == EAGAIN)
        return status_error(STATUS_BUSY, "%.90s: another process serves it", path);
    if (error != ECONNREFUSED)
        return status_errno(error, path);
    if (unlink(path) != 0 && errno != ENOENT)
        return status_errno(errno, path);
    return status_ok();
}

uint64_t link_endpoint_inode(const char *endpoint)
{
    struct stat info;

    if (!has_prefix(endpoint, ipc_prefix) || lstat(endpoint + strlen(ipc_prefix), &info) != 0)
        return 0;
    return info.st_ino;
}

void link_endpoint_release(const char *endpoint, uint64_t inode)
{
    if (inode != 0 && link_endpoint_inode(endpoint) == inode)
        unlink(endpoint + strlen(ipc_prefix));
}
