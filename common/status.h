/*
 * status.h - how a function that can fail says so: a code to branch on, a message for people.
 *
 * The message names what failed and on what ("model.safetensors: header cut at 3 bytes"). A
 * function returns a status or logs, never both; main and the loops log.
 */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H

#define MUST_CHECK __attribute__((warn_unused_result))

enum status_code {
    STATUS_OK = 0,
    STATUS_INVALID,     /* an argument, option or request is outside what is allowed */
    STATUS_FORMAT,      /* bytes do not follow their format: a file, a frame, a JSON text */
    STATUS_UNSUPPORTED, /* well formed, but asks for something that is not there */
    STATUS_NOT_FOUND,   /* a file, a tensor, a server */
    STATUS_NO_SPACE,    /* a bounded structure is full; nothing has changed, try again later */
    STATUS_NO_MEMORY,   /* the host's or the device's allocator said no */
    STATUS_IO,          /* the operating system said no */
    STATUS_GONE,        /* the peer is not reachable any more */
    STATUS_BUSY,        /* held by another process or by work in flight */
    STATUS_DEVICE,      /* the accelerator failed: ends the process */
    STATUS_INTERRUPTED, /* asked to stop */
};

struct status {
    enum status_code code;
    char msg[252];
};

static inline struct status status_ok(void)
{
    struct status status;

    status.code = STATUS_OK; /* on hot paths: the rest of msg is not touched */
    status.msg[0] = '\0';
    return status;
}

/* A status with a printf-style message, cut at a character boundary if it does not fit. */
MUST_CHECK struct status status_error(enum status_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same status with "context: " before its message; an OK status passes unchanged. Of a long
 * context, such as a path, the end is kept: the message must fit behind it. */
MUST_CHECK struct status status_context(struct status status, const char *context);

/* STATUS_IO (or the nearer code of errno: not found, no memory) with "what: strerror". */
MUST_CHECK struct status status_errno(int error, const char *what);

/* The code's name, such as "invalid". Never NULL. */
const char *status_name(enum status_code code);

#endif
