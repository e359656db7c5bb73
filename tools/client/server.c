/* server.c - see server.h. */
#include "tools/client/server.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/json.h"
#include "proto/link_endpoint.h"

enum { MAX_RUN_JSON = 1 << 16, MAX_PATH = 1024 };

/* In /tmp anyone may make a directory of that name, and would then be sent the prompts. */
static struct status check_owner(const char *path)
{
    struct stat info;

    if (lstat(path, &info) != 0) /* not there: no server either */
        return status_ok();
    if (!S_ISDIR(info.st_mode) || info.st_uid != getuid() || (info.st_mode & (S_IWGRP | S_IWOTH)))
        return status_error(STATUS_INVALID, "%.60s is not a directory of yours alone", path);
    return status_ok();
}

/* Where the directories of all servers are. */
static struct status find_parent(char *out, size_t out_size)
{
    const char *given = getenv("MINISGL_RUN_DIR"), *runtime = getenv("XDG_RUNTIME_DIR");
    int size;

    if (given && *given)
        size = snprintf(out, out_size, "%s", given);
    else if (runtime && *runtime)
        size = snprintf(out, out_size, "%s/minisgl", runtime);
    else
        size = snprintf(out, out_size, "/tmp/minisgl-%u", (unsigned)getuid());
    if (size < 0 || (size_t)size >= out_size)
        return status_error(STATUS_INVALID, "the path of the run directory is too long");
    if ((given && *given) || (runtime && *runtime))
        return status_ok();
    return check_owner(out);
}

static struct status copy_text(const struct json_value *value, const char *what, char *out,
                               size_t out_size)
{
    if (!value || value->type != JSON_STRING)
        return status_error(STATUS_FORMAT, "%s is missing", what);
    if (value->text.size >= out_size)
        return status_error(STATUS_FORMAT, "%s is too long", what);
    memcpy(out, value->text.data, value->text.size);
    out[value->text.size] = '\0';
    return status_ok();
}

static struct status parse(const struct json_value *run, struct server *server)
{
    const struct json_value *endpoints = json_get(run, "endpoints");
    const struct json_value *number = json_get(run, "run"), *pid = json_get(run, "pid");
    const struct {
        const struct json_value *parent;
        const char *key;
        char *out;
        size_t out_size;
    } texts[] = {
        {run, "name", server->name, sizeof(server->name)},
        {run, "model", server->model, sizeof(server->model)},
        {endpoints, "tokenizer", server->tokenizer, SERVER_TEXT},
        {endpoints, "detokenizer", server->detokenizer, SERVER_TEXT},
        {endpoints, "tokenizer_control", server->tokenizer_control, SERVER_TEXT},
        {endpoints, "scheduler_control", server->scheduler_control, SERVER_TEXT},
        {endpoints, "detokenizer_control", server->detokenizer_control, SERVER_TEXT},
    };

    if (number && number->is_integer)
        server->run = (uint64_t)number->integer;
    if (pid && pid->is_integer)
        server->pid = pid->integer;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct status status = copy_text(json_get(texts[i].parent, texts[i].key), texts[i].key,
                                         texts[i].out, texts[i].out_size);
        if (status.code)
            return status;
    }
    return status_ok();
}

bool server_is_running(const struct server *server)
{
    return server->pid <= 0 || kill((pid_t)server->pid, 0) == 0 || errno != ESRCH;
}

/* Where a server of that name has such a file, into out[MAX_PATH]. */
static struct status locate(const char *parent, const char *name, const char *file, char *out)
{
    char dir[MAX_PATH];
    struct status status = path_join(parent, name, dir, sizeof(dir));

    if (!status.code)
        status = path_join(dir, file, out, MAX_PATH);
    return status;
}

/* The server of that name; STATUS_NOT_FOUND when there is none, or only what a dead one left. */
static struct status read_server(const char *parent, const char *name, struct server *out)
{
    char path[MAX_PATH];
    char *text = NULL;
    size_t size = 0;
    struct json_value *run = NULL;
    struct server server = {0};
    struct arena arena;
    struct status status;

    arena_init(&arena, 0, 0);
    status = locate(parent, name, "run.json", path);
    if (!status.code)
        status = file_read(path, MAX_RUN_JSON, &text, &size);
    if (!status.code)
        status = status_context(json_parse(text, size, &arena, &run), path);
    if (!status.code)
        status = status_context(parse(run, &server), path);
    if (!status.code && !server_is_running(&server))
        status = status_error(STATUS_NOT_FOUND, "the server '%.40s' has died", name);
    if (!status.code)
        *out = server;
    free(text);
    arena_deinit(&arena);
    return status;
}

/* Whether a server of that name has such a file, or left it behind. */
static bool has_file(const char *parent, const char *name, const char *file, struct stat *out)
{
    char path[MAX_PATH];

    return !locate(parent, name, file, path).code && stat(path, out) == 0;
}

/* When a server of that name logged last; 0: never. */
static int64_t logged_ns(const char *parent, const char *name)
{
    static const char *const logs[] = {"scheduler.log", "tokenizer.log", "detokenizer.log"};
    struct stat info;
    int64_t last_ns = 0;

    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        if (!has_file(parent, name, logs[i], &info))
            continue;
        int64_t time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
        last_ns = time_ns > last_ns ? time_ns : last_ns;
    }
    return last_ns;
}

/* A launcher that stops as it is asked to removes run.json, and has nothing to say in its log. */
static bool has_failed(const char *parent, const char *name)
{
    struct stat info;

    return has_file(parent, name, "run.json", &info) ||
           (has_file(parent, name, "launcher.log", &info) && info.st_size > 0);
}

/* None is running; name: of the one that ended last, or "". The user has not asked for that one:
 * it is worth a word only if it failed. */
static struct status none_is_running(const char *parent, const char *name)
{
    if (*name && has_failed(parent, name))
        return status_error(STATUS_NOT_FOUND,
                            "no server is running: '%.24s' has ended, see %s/%s/*.log; start one "
                            "with tools/launch.sh",
                            name, parent, name);
    return status_error(STATUS_NOT_FOUND,
                        "no server is running (in %.60s): start one with tools/launch.sh", parent);
}

/* The only server that is running. */
static struct status find_only(const char *parent, struct server *out)
{
    char names[96] = "", ended[SERVER_TEXT] = "";
    int64_t ended_ns = 0;
    size_t num = 0;
    DIR *dir = opendir(parent);
    struct dirent *entry;
    struct server server;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (read_server(parent, entry->d_name, &server).code) {
            int64_t time_ns = logged_ns(parent, entry->d_name);
            if (time_ns > ended_ns) {
                ended_ns = time_ns;
                snprintf(ended, sizeof(ended), "%s", entry->d_name);
            }
            continue;
        }
        size_t size = strlen(names);
        if (snprintf(names + size, sizeof(names) - size, "%s%s", num ? ", " : "", server.name) < 0)
            names[size] = '\0';
        if (num++ == 0)
            *out = server;
    }
    if (dir)
        closedir(dir);
    if (num == 0)
        return none_is_running(parent, ended);
    if (num > 1)
        return status_error(STATUS_INVALID, "several servers are running (%.60s): give --name",
                            names);
    return status_ok();
}

static struct status from_endpoints(const char *endpoints, struct server *out)
{
    const char *comma = strchr(endpoints, ',');
    size_t first = comma ? (size_t)(comma - endpoints) : 0;
    struct server server = {0};

    if (!comma || first == 0 || first >= SERVER_TEXT || !comma[1] ||
        strlen(comma + 1) >= SERVER_TEXT)
        return status_error(STATUS_INVALID, "takes TOKENIZER,DETOKENIZER, such as "
                                            "tcp://127.0.0.1:5000,tcp://127.0.0.1:5001");
    memcpy(server.tokenizer, endpoints, first);
    memcpy(server.detokenizer, comma + 1, strlen(comma + 1));
    *out = server;
    return status_ok();
}

struct status server_choice_check(const struct server_choice *choice)
{
    const char *name = choice->name;
    struct server server;

    if (name && (!*name || strchr(name, '/') || name[0] == '.'))
        return status_error(STATUS_INVALID, "--name '%.40s' is no name of a server", name);
    if (name && choice->endpoints)
        return status_error(STATUS_INVALID, "--name and --endpoint do not go together");
    if (!choice->endpoints)
        return choice->curve_keys ? status_error(STATUS_INVALID, "--curve-keys is for --endpoint")
                                  : status_ok();
    struct status status = from_endpoints(choice->endpoints, &server);
    if (!status.code)
        status = link_endpoint_check(server.tokenizer, choice->curve_keys != NULL);
    if (!status.code)
        status = link_endpoint_check(server.detokenizer, choice->curve_keys != NULL);
    return status_context(status, "--endpoint");
}

struct status server_find(const struct server_choice *choice, struct server *out)
{
    char parent[MAX_PATH];
    struct status status;

    if (choice->endpoints)
        return from_endpoints(choice->endpoints, out);
    status = find_parent(parent, sizeof(parent));
    if (status.code)
        return status;
    if (!choice->name)
        return read_server(parent, "default", out).code ? find_only(parent, out) : status_ok();
    status = read_server(parent, choice->name, out);
    if (status.code == STATUS_NOT_FOUND && logged_ns(parent, choice->name))
        return status_error(STATUS_NOT_FOUND,
                            "no server named '%.24s' is running: it has ended, see %s/%s/*.log; "
                            "start one with tools/launch.sh",
                            choice->name, parent, choice->name);
    if (status.code == STATUS_NOT_FOUND)
        return status_error(STATUS_NOT_FOUND,
                            "no server named '%.30s' is running (in %.30s): start one with "
                            "tools/launch.sh",
                            choice->name, parent);
    return status;
}
