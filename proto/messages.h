/*
 * messages.h - every message between minisgl's processes and their clients, as plain structs.
 *
 * proto/PROTOCOL.md gives the bytes; messages_codec.h turns one into the other. A decoded message
 * borrows its variable parts (strings, ids, arrays) from the frame or from the arena that the
 * decoder was given, and is valid as long as both are. Lengths are counts of elements or bytes as
 * named; nothing is NUL-terminated unless said.
 */
#ifndef PROTO_MESSAGES_H
#define PROTO_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROTOCOL_VERSION = 1,
    MAX_RID_BYTES = 128, /* of a client's own name for a request */
    MAX_REPLY_TO_BYTES = 65536,
    MAX_STOP_STRINGS = 16,
    MAX_STOP_STRING_BYTES = 1024,
    MAX_STOP_TOKEN_IDS = 64,
    MAX_ERROR_BYTES = 512, /* of the text of an error */
};

/* One client process: 16 random bytes, the first not zero; the identity of both of its sockets. */
struct client_id {
    uint8_t bytes[16];
};

/* Bytes of a frame or of an arena. */
struct bytes {
    const uint8_t *data;
    size_t size;
};

enum finish_reason {
    FINISH_NONE = 0, /* not the last */
    FINISH_STOP,     /* an end id, a stop token id or a stop string */
    FINISH_LENGTH,   /* max_tokens or the model's length */
    FINISH_ABORT,
    FINISH_ERROR, /* beside it stands an error code */
};

enum error_code {
    ERROR_NONE = 0,
    ERROR_INVALID_REQUEST,
    ERROR_TOO_LONG,
    ERROR_OVERLOADED,
    ERROR_ABORTED,
    ERROR_SLOW_CLIENT,
    ERROR_SERVER_LOST,
    ERROR_SHUTTING_DOWN,
    ERROR_INTERNAL,
};

/* "invalid_request" and so on; "" for ERROR_NONE. finish_reason_name: "stop" ...; "" for
 * FINISH_NONE. */
const char *error_code_name(enum error_code code);
const char *finish_reason_name(enum finish_reason reason);
/* false when no code (reason) has that name. */
bool error_code_parse(const char *text, size_t size, enum error_code *out);
bool finish_reason_parse(const char *text, size_t size, enum finish_reason *out);

/*
 * How a request's tokens are chosen and when it ends. As a request carries it to the scheduler all
 * fields are set: defaults and the drawn seed have been put in by the tokenizer.
 */
struct sampling {
    float temperature;  /* 0: greedy; at most 100 */
    float top_p;        /* 0..1; 1: off; 0 keeps the top token */
    float min_p;        /* 0..1; 0: off */
    int32_t top_k;      /* 0: off; 1: greedy */
    int32_t max_tokens; /* at least 1 */
    uint64_t seed;
    bool ignore_eos; /* end ids of the model are ignored; stop_token_ids are not */
    int32_t num_stop_token_ids;
    const int32_t *stop_token_ids; /* [num_stop_token_ids] */
};

/* ---- client -> tokenizer: one frame, one answer ---- */

enum prompt_kind { PROMPT_TEXT, PROMPT_MESSAGES, PROMPT_IDS };

enum tristate { UNSET = -1, NO = 0, YES = 1 };

/* generate; tokenize and render use the prompt's part of it. */
struct generate_msg {
    struct bytes rid; /* UTF-8, 1..MAX_RID_BYTES */
    enum prompt_kind prompt_kind;
    struct bytes text;        /* PROMPT_TEXT: UTF-8, may hold NUL */
    struct bytes messages;    /* PROMPT_MESSAGES: JSON text of the array */
    struct bytes tools;       /* JSON text of an array, or empty */
    struct bytes kwargs;      /* JSON text of an object for the template, or empty */
    const int32_t *input_ids; /* PROMPT_IDS */
    size_t num_input_ids;
    bool add_generation_prompt;       /* default true */
    enum tristate parse_special;      /* default: YES for text, NO for messages */
    enum tristate add_special_tokens; /* default: YES for text, NO for messages */
    struct sampling sampling;
    bool has_seed;       /* else the tokenizer draws one */
    bool has_max_tokens; /* else 1024, clamped to what fits */
    int32_t num_stops;
    const struct bytes *stops; /* [num_stops], each 1..MAX_STOP_STRING_BYTES of UTF-8 */
    bool skip_special;         /* default true */
    bool want_ids;             /* deltas carry token ids */
    bool stream;               /* default true; false: one deltas message at the end */
};

/* abort{rid} of the own client, or abort{uid} of any. */
struct client_abort_msg {
    struct bytes rid; /* rid of this exchange */
    bool has_uid;     /* target by uid, else by target_rid */
    uint64_t uid;
    struct bytes target_rid;
};

struct info_msg {
    struct bytes rid;
};

/* ---- tokenizer -> client ---- */

struct accepted_msg {
    struct bytes rid;
    uint64_t uid;
};

/* Answer of tokenize (ids), render (text and ids), info (JSON text), abort (nothing). */
struct result_msg {
    struct bytes rid;
    bool has_ids;
    const int32_t *ids;
    size_t num_ids;
    bool has_text;
    struct bytes text;
    bool has_info;
    struct bytes info; /* JSON text of an object */
};

/* Also detokenizer -> client (with uid when the request had one): ends the request. */
struct error_msg {
    struct bytes rid; /* empty when the frame had none that could be read */
    uint64_t uid;     /* 0: none */
    enum error_code code;
    struct bytes message;
};

/* ---- tokenizer -> scheduler ---- */

/*
 * What the detokenizer needs of a request, opaque to the scheduler: reply_to is these fields
 * encoded, at most MAX_REPLY_TO_BYTES.
 */
struct reply_to {
    struct client_id client;
    struct bytes rid;
    int32_t num_stops;
    const struct bytes *stops;
    bool skip_special;
    bool want_ids;
    bool stream;
};

struct request_msg {
    uint64_t uid; /* tokenizer instance << 48 | counter; never 0 */
    struct client_id client;
    const int32_t *input_ids; /* [num_input_ids]; little-endian on the wire */
    size_t num_input_ids;
    struct sampling sampling;
    struct bytes reply_to;
};

/* Also detokenizer -> scheduler. */
struct abort_msg {
    bool by_client;
    uint64_t uid;            /* when !by_client */
    struct client_id client; /* when by_client: all its requests */
};

/* ---- scheduler -> detokenizer ---- */

enum { TOKEN_NONE = -1 };

/* One request's share of a step. A terminal may carry no token. */
struct token_row {
    uint64_t uid;
    int32_t token; /* or TOKEN_NONE */
    enum finish_reason finish;
    enum error_code error; /* with FINISH_ERROR */
    /* on the first row of a uid only: */
    bool is_first;
    struct bytes reply_to;
    int32_t num_prompt_tokens;
    int32_t num_cached_tokens;
};

struct tokens_msg {
    int64_t step_end_ns; /* when the scheduler had the step's result, monotonic clock of its host */
    int32_t num_rows;
    const struct token_row *rows; /* [num_rows] */
};

/* A request that never ran. It is answered through its own reply_to. */
struct rejected_msg {
    uint64_t uid;
    enum error_code code;
    struct bytes message;
    struct bytes reply_to;
};

/* ---- client <-> detokenizer ---- */

/* hello_ok and alive: what the detokenizer knows of the client. Another session than before: it had
 * forgotten the client, and has ended its requests. Another count than what has arrived: some of it
 * was lost with a connection. */
struct presence_msg {
    uint64_t session;  /* a number for each time that it is registered anew; 0: not said */
    uint64_t num_sent; /* frames with deltas or an error of a request, in this session */
};

struct usage {
    int32_t prompt_tokens;
    int32_t completion_tokens;
    int32_t cached_tokens;
};

/* One request's part of a deltas frame. */
struct delta {
    struct bytes rid;
    uint64_t uid;
    struct bytes text;  /* valid UTF-8 */
    const int32_t *ids; /* when asked for */
    int32_t num_ids;
    enum finish_reason finish;
    enum error_code error;      /* with FINISH_ERROR or FINISH_ABORT */
    struct bytes error_message; /* with FINISH_ERROR */
    struct usage usage;         /* with a finish */
    int64_t first_token_ns; /* with a finish: from the first to the last token of the request, */
    int64_t last_token_ns;  /* on the scheduler's monotonic clock; 0 when there was none */
};

struct deltas_msg {
    int32_t num_deltas;
    const struct delta *deltas; /* [num_deltas] */
};

/* ---- any -> control endpoint of a process (REQ/REP) ---- */

enum control_command {
    CONTROL_PING,
    CONTROL_STATS,
    CONTROL_DRAIN,        /* take no new requests, finish the running ones, then exit 0 */
    CONTROL_FLUSH_CACHE,  /* scheduler: empty the prefix cache of what nobody uses */
    CONTROL_LOG_LEVEL,    /* with a level */
    CONTROL_NORMAL_LOOP,  /* scheduler: process each step before the next is launched */
    CONTROL_OVERLAP_LOOP, /* scheduler: launch the next one first */
    CONTROL_CHECK,        /* scheduler: walk all of its tables; an error names what is broken */
};

struct control_msg {
    enum control_command command;
    struct bytes level; /* CONTROL_LOG_LEVEL */
};

/* ok, and for stats a JSON object as text; else an error. */
struct control_reply_msg {
    bool ok;
    struct bytes info;    /* JSON text, or empty */
    struct bytes message; /* when !ok */
};

/* ---- all of them ---- */

enum message_type {
    MESSAGE_GENERATE,
    MESSAGE_TOKENIZE, /* body: generate */
    MESSAGE_RENDER,   /* body: generate */
    MESSAGE_CLIENT_ABORT,
    MESSAGE_INFO,
    MESSAGE_ACCEPTED,
    MESSAGE_RESULT,
    MESSAGE_ERROR,
    MESSAGE_REQUEST,
    MESSAGE_ABORT,
    MESSAGE_TOKENS,
    MESSAGE_REJECTED,
    MESSAGE_HELLO,    /* no body */
    MESSAGE_HELLO_OK, /* body: presence */
    MESSAGE_ALIVE,    /* body: presence */
    MESSAGE_DELTAS,
    MESSAGE_CONTROL,
    MESSAGE_CONTROL_REPLY,
};

struct message {
    enum message_type type;
    uint64_t run; /* pipe messages only: the launcher's run number, 0 when started by hand */
    union {
        struct generate_msg generate; /* GENERATE, TOKENIZE, RENDER */
        struct client_abort_msg client_abort;
        struct info_msg info;
        struct accepted_msg accepted;
        struct result_msg result;
        struct error_msg error;
        struct request_msg request;
        struct abort_msg abort;
        struct tokens_msg tokens;
        struct rejected_msg rejected;
        struct presence_msg presence; /* HELLO_OK, ALIVE */
        struct deltas_msg deltas;
        struct control_msg control;
        struct control_reply_msg control_reply;
    };
};

#endif
