/* algo_cache.c - see algo_cache.h. */
#include "kernels/cuda/algo_cache.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"

enum { MAX_FILE_SIZE = 4 << 20, NUM_FIELDS = 10 };

static const char first_line[] = "minisgl linear algorithms 7\n";

/* The file's path, its folders made. */
static bool find_path(const char *card, int version, char *out, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int len;

    if (cache && cache[0] == '/')
        len = snprintf(out, size, "%s", cache);
    else if (home && home[0] == '/')
        len = snprintf(out, size, "%s/.cache", home);
    else
        return false;
    if (len < 0 || (size_t)len + strlen(card) + 64 > size)
        return false;
    mkdir(out, 0700); /* where it is there already, or cannot be, the file's opening shows it */
    len += snprintf(out + len, size - (size_t)len, "/minisgl");
    mkdir(out, 0700);
    char *name = out + len;
    snprintf(name, size - (size_t)len, "/linear-%s-%d.txt", card, version);
    for (char *c = name + 1; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
            *c = '-';
    return true;
}

static void fields_of(struct algo_entry *entry, int32_t *out[NUM_FIELDS])
{
    int32_t *fields[NUM_FIELDS] = {
        &entry->n,       &entry->k,          &entry->bucket,   &entry->alignment, &entry->dtype,
        &entry->y_dtype, &entry->accumulate, &entry->has_bias, &entry->is_gated,  &entry->own};

    memcpy(out, fields, sizeof(fields));
}

/* Reads one line; *at moves behind it. */
static bool parse_entry(const char **at, struct algo_entry *out)
{
    int32_t *fields[NUM_FIELDS];
    char *end = NULL;

    fields_of(out, fields);
    for (int i = 0; i < NUM_FIELDS; i++) {
        long value = strtol(*at, &end, 10);
        if (end == *at || value < 0 || value > INT32_MAX || *end != ' ')
            return false;
        *fields[i] = (int32_t)value;
        *at = end + 1;
    }
    for (int i = 0; i < ALGO_WORDS; i++) {
        out->algo[i] = strtoull(*at, &end, 16);
        if (end != *at + 16 || *end != (i + 1 < ALGO_WORDS ? ' ' : '\n'))
            return false;
        *at = end + 1;
    }
    return out->n > 0 && out->k > 0 && out->bucket > 0;
}

static int parse(const char *text, const char *title, struct algo_entry *out, int max)
{
    const char *at = text;
    int num = 0;
    char last_line[32];

    if (strncmp(at, first_line, strlen(first_line)) != 0)
        return 0;
    at += strlen(first_line);
    if (strncmp(at, title, strlen(title)) != 0)
        return 0;
    at += strlen(title);
    while (num < max && isdigit((unsigned char)*at)) {
        struct algo_entry entry = {0};
        if (!parse_entry(&at, &entry))
            return 0;
        out[num++] = entry;
    }
    snprintf(last_line, sizeof(last_line), "end %d\n", num);
    return strcmp(at, last_line) == 0 ? num : 0;
}

static void title_of(const char *card, int version, char *out, size_t size)
{
    snprintf(out, size, "%.200s cuBLAS %d\n", card, version);
}

int algo_cache_load(const char *card, int version, struct algo_entry *out, int max)
{
    char path[PATH_MAX], title[256];
    char *text = NULL;
    size_t size = 0;
    int num = 0;

    if (!find_path(card, version, path, sizeof(path)))
        return 0;
    struct status status = file_read(path, MAX_FILE_SIZE, &text, &size);
    if (status.code)
        return 0;
    title_of(card, version, title, sizeof(title));
    num = parse(text, title, out, max);
    free(text);
    return num;
}

static void print_entry(FILE *file, const struct algo_entry *entry)
{
    struct algo_entry copy = *entry;
    int32_t *fields[NUM_FIELDS];

    fields_of(&copy, fields);
    for (int i = 0; i < NUM_FIELDS; i++)
        fprintf(file, "%" PRId32 " ", *fields[i]);
    for (int i = 0; i < ALGO_WORDS; i++)
        fprintf(file, "%016" PRIx64 "%c", copy.algo[i], i + 1 < ALGO_WORDS ? ' ' : '\n');
}

bool algo_cache_save(const char *card, int version, const struct algo_entry *entries, int num)
{
    char path[PATH_MAX], temporary[PATH_MAX + 32], title[256];

    if (!find_path(card, version, path, sizeof(path)))
        return false;
    snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "w");
    if (!file)
        return false;
    title_of(card, version, title, sizeof(title));
    fprintf(file, "%s%s", first_line, title);
    for (int i = 0; i < num; i++)
        print_entry(file, &entries[i]);
    fprintf(file, "end %d\n", num);
    bool ok = !ferror(file);
    ok = fclose(file) == 0 && ok;
    ok = ok && rename(temporary, path) == 0;
    if (!ok)
        unlink(temporary);
    return ok;
}
