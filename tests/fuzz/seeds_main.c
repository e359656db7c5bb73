/*
 * seeds_main.c - a fuzz target without libFuzzer: its seeds as they are, then bent ones, a fixed
 * number of them. The same inputs on every run, so it is a test; looking for new ones is the
 * fuzzer's.
 *
 *   seeds_<target> BENT PATH...     a PATH is a seed or a folder of them
 *
 * Each input lies in a block of its exact size, so that AddressSanitizer sees a read behind it. A
 * target that finds a fault aborts; the input then is in ./crash-<target>.
 */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

enum {
    MAX_SEEDS = 512,
    MAX_BENT_SIZE = 1 << 16, /* of a longer seed only this much is bent */
    MAX_EDITS = 4,
};

struct seed {
    uint8_t *data; /* owned */
    size_t size;
};

static struct seed seeds[MAX_SEEDS];
static size_t num_seeds;
static uint64_t random_state = 1;

/* For the handler of SIGABRT. */
static char crash_path[64];
static const uint8_t *running;
static size_t running_size;

static uint64_t random_below(uint64_t n) /* splitmix64 */
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % n;
}

static void keep_input(int number)
{
    FILE *file = fopen(crash_path, "wb");

    if (file) {
        fwrite(running, 1, running_size, file);
        fclose(file);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void run(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact)
        abort();
    memcpy(exact, data, size);
    running = exact;
    running_size = size;
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* Flips, sets, cuts, doubles, or puts a part of another seed in. Returns the new size. */
static size_t edit(uint8_t *data, size_t size, size_t max_size)
{
    const struct seed *other = &seeds[random_below(num_seeds)];
    size_t at = size ? random_below(size) : 0, n;

    switch (size ? random_below(6) : 5) {
    case 0:
        data[at] ^= (uint8_t)(1u << random_below(8));
        break;
    case 1:
        data[at] = (uint8_t)random_below(256);
        break;
    case 2:
        return at;
    case 3:
        n = 1 + random_below(size - at < 32 ? size - at : 32);
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    case 4:
        n = 1 + random_below(size - at < 32 ? size - at : 32);
        if (size + n > max_size)
            break;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    default:
        if (!other->size)
            break;
        size_t from = random_below(other->size);
        n = 1 + random_below(other->size - from < 256 ? other->size - from : 256);
        if (at + n > max_size)
            break;
        memcpy(data + at, other->data + from, n);
        return at + n > size ? at + n : size;
    }
    return size;
}

static void run_bent(size_t num_bent)
{
    static uint8_t data[2 * MAX_BENT_SIZE];

    for (size_t i = 0; i < num_bent; i++) {
        const struct seed *seed = &seeds[i % num_seeds];
        size_t size = seed->size < MAX_BENT_SIZE ? seed->size : MAX_BENT_SIZE;
        memcpy(data, seed->data, size);
        for (uint64_t edits = 1 + random_below(MAX_EDITS); edits > 0; edits--)
            size = edit(data, size, sizeof(data));
        run(data, size);
    }
}

static int read_seed(const char *path)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    int rc = -1;

    if (!file || fstat(fileno(file), &info) || num_seeds == MAX_SEEDS)
        goto out;
    struct seed seed = {malloc((size_t)info.st_size + 1), (size_t)info.st_size};
    if (!seed.data || fread(seed.data, 1, seed.size, file) != seed.size) {
        free(seed.data);
        goto out;
    }
    seeds[num_seeds++] = seed;
    rc = 0;
out:
    if (rc)
        fprintf(stderr, "%s: cannot be read\n", path);
    if (file)
        fclose(file);
    return rc;
}

/* In the order of the names: the same on every machine. */
static int read_seeds(const char *path)
{
    struct dirent **entries = NULL;
    int num_entries = scandir(path, &entries, NULL, alphasort), rc = 0;

    if (num_entries < 0)
        return read_seed(path);
    for (int i = 0; i < num_entries; i++) {
        char file[PATH_MAX];
        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            rc |= read_seed(file);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s BENT PATH...\n", argv[0]);
        return 2;
    }
    const char *slash = strrchr(argv[0], '/');
    snprintf(crash_path, sizeof(crash_path), "crash-%.40s", slash ? slash + 1 : argv[0]);
    signal(SIGABRT, keep_input);
    for (int i = 2; i < argc; i++)
        rc |= read_seeds(argv[i]);
    if (rc || num_seeds == 0)
        return 2;
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (size_t i = 0; i < num_seeds; i++)
        run(seeds[i].data, seeds[i].size);
    run_bent((size_t)strtoul(argv[1], NULL, 10));
    printf("%zu seeds, %s bent\n", num_seeds, argv[1]);
    for (size_t i = 0; i < num_seeds; i++)
        free(seeds[i].data);
    return 0;
}
