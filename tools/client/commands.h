/*
 * commands.h - the subcommands of minisgl, one per file, and what they share.
 *
 * Each takes the command line from its own name on and returns the exit code.
 */
#ifndef TOOLS_CLIENT_COMMANDS_H
#define TOOLS_CLIENT_COMMANDS_H

#include "common/json.h"
#include "common/options.h"
#include "tools/client/client.h"
#include "tools/client/server.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

int command_generate(int argc, char **argv);
int command_chat(int argc, char **argv);
int command_batch(int argc, char **argv);
int command_status(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_abort(int argc, char **argv);
int command_bench(int argc, char **argv);

/* Entries of an option table for a struct server_choice *c; the first alone for those that need a
 * server of this host. */
#define SERVER_NAME_SPECS(c)                                                                       \
    option_header("Which server"),                                                                 \
        option_string(                                                                             \
            "name", &(c)->name, "NAME",                                                            \
            "the server of that name (`default`, or else\nthe only one that is running)")
#define SERVER_OPTION_SPECS(c)                                                                     \
    SERVER_NAME_SPECS(c),                                                                          \
        option_string("endpoint", &(c)->endpoints, "T,D",                                          \
                      "its tokenizer's and detokenizer's endpoints, such "                         \
                      "as\ntcp://127.0.0.1:5000,tcp://127.0.0.1:5001"),                            \
        option_string("curve-keys", &(c)->curve_keys, "DIR",                                       \
                      "CURVE certificates, for tcp beyond loopback")

/* Writes "minisgl: ..." to stderr; returns the exit code that fits. */
int command_fail(struct status status);

/* Parses the options of a subcommand, which set choice. True: the caller returns *out_exit. */
bool command_parse(int argc, char **argv, const struct option_usage *usage,
                   const struct option_spec *specs, const struct server_choice *choice,
                   struct option_list *rest, int *out_exit);

/* Finds the server and connects to it; server may be NULL. */
MUST_CHECK struct status command_connect(const struct server_choice *choice, struct server *server,
                                         struct client **out);

/* The server's answer to info, in the arena. STATUS_GONE: there was none. No call is open. */
MUST_CHECK struct status command_ask_info(struct client *client, struct arena *arena,
                                          struct json_value **out);

/*
 * Ctrl-C and SIGTERM set a flag, however often they come. command_interrupted() is true from then
 * until command_resume(); command_terminated() stays true after a SIGTERM.
 */
void command_catch_signals(void);
bool command_interrupted(void);
bool command_terminated(void);
void command_resume(void);

/* Aborts a call and gives its last event two seconds to come. */
void command_abort_call(struct client *client, uint64_t call);

#endif
