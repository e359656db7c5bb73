/* main.c - minisgl: finds the subcommand. */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "tools/client/commands.h"

static const struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"generate", "continue a text or answer a chat, once", command_generate},
    {"chat", "talk with the model", command_chat},
    {"batch", "answer a file of requests, many in flight together", command_batch},
    {"status", "what a running server is doing", command_status},
    {"tokenize", "the token ids of a text", command_tokenize},
    {"abort", "end a request by its uid", command_abort},
    {"bench", "load a server and measure what a client sees", command_bench},
};

enum { NUM_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
    fprintf(out, "usage: minisgl COMMAND [options]\n\n"
                 "Talks to a running minisgl server (tools/launch.sh starts one).\n\n");
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`minisgl COMMAND --help` lists the options of each; `minisgl --version` says "
                 "which this is.\n");
}

/* What a command printed counts only if it has arrived. */
static int finish(int exit_code)
{
    bool is_written = fflush(stdout) == 0 && !ferror(stdout);

    if (is_written || exit_code != EXIT_OK)
        return exit_code;
    fprintf(stderr, "minisgl: stdout cannot be written\n");
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    log_open("minisgl");
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return finish(EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        options_print_version("minisgl");
        return finish(EXIT_OK);
    }
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return finish(commands[i].run(argc - 1, argv + 1));
    fprintf(stderr, "minisgl: unknown command '%s'", argv[1]);
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        if (options_are_near(argv[1], strlen(argv[1]), commands[i].name))
            fprintf(stderr, " (did you mean %s?)", commands[i].name);
    fprintf(stderr, " (try --help)\n");
    return EXIT_USAGE;
}
