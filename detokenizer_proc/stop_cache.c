/*
 * stop_cache.c - see stop_cache.h. A hash table with chains; the unused entries hang in a list as
 * well, the least recently used last.
 */
#include "detokenizer_proc/stop_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

struct stop_entry {
    struct stop_match match;          /* first, so that its address is the entry's */
    struct stop_entry *next;          /* in its bucket */
    struct stop_entry *newer, *older; /* among the unused, when num_users is 0 */
    size_t num_users;
    uint64_t hash;
    size_t key_size;
    char key[]; /* each string behind its size */
};

static size_t key_size_of(const struct bytes *strings, size_t num_strings)
{
    size_t size = 0;

    for (size_t i = 0; i < num_strings; i++)
        size += sizeof(strings[i].size) + strings[i].size;
    return size;
}

static void key_write(const struct bytes *strings, size_t num_strings, char *out)
{
    for (size_t i = 0; i < num_strings; i++) {
        memcpy(out, &strings[i].size, sizeof(strings[i].size));
        out += sizeof(strings[i].size);
        memcpy(out, strings[i].data, strings[i].size);
        out += strings[i].size;
    }
}

static bool key_is(const struct stop_entry *entry, const struct bytes *strings, size_t num_strings)
{
    const char *at = entry->key;

    for (size_t i = 0; i < num_strings; i++) {
        if (memcmp(at, &strings[i].size, sizeof(strings[i].size)) != 0)
            return false;
        at += sizeof(strings[i].size);
        if (memcmp(at, strings[i].data, strings[i].size) != 0)
            return false;
        at += strings[i].size;
    }
    return true;
}

/* Of sizes and bytes. */
static uint64_t hash_of(const struct bytes *strings, size_t num_strings)
{
    uint64_t hash = hash_start;

    for (size_t i = 0; i < num_strings; i++) {
        hash = hash_bytes(hash, &strings[i].size, sizeof(strings[i].size));
        hash = hash_bytes(hash, strings[i].data, strings[i].size);
    }
    return hash ^ hash >> 32;
}

static void unused_remove(struct stop_cache *cache, struct stop_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
    cache->num_unused--;
}

static void unused_add(struct stop_cache *cache, struct stop_entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
    cache->num_unused++;
}

static void entry_free(struct stop_entry *entry)
{
    stop_match_deinit(&entry->match);
    free(entry);
}

/* Drops the least recently used of the unused ones. */
static void evict(struct stop_cache *cache)
{
    struct stop_entry *entry = cache->oldest;
    struct stop_entry **link = &cache->buckets[entry->hash & (cache->num_buckets - 1)];

    unused_remove(cache, entry);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    cache->num_entries--;
    entry_free(entry);
}

/* Doubles the table when it is full; a table that cannot grow still works. */
static void grow(struct stop_cache *cache)
{
    size_t num_buckets = cache->num_buckets * 2;

    if (cache->num_entries < cache->num_buckets)
        return;
    struct stop_entry **buckets = calloc(num_buckets, sizeof(struct stop_entry *));
    if (!buckets)
        return;
    for (size_t i = 0; i < cache->num_buckets; i++) {
        for (struct stop_entry *entry = cache->buckets[i], *next; entry; entry = next) {
            struct stop_entry **bucket = &buckets[entry->hash & (num_buckets - 1)];
            next = entry->next;
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->num_buckets = num_buckets;
}

struct status stop_cache_init(struct stop_cache *cache, size_t max_unused)
{
    *cache = (struct stop_cache){.num_buckets = 64, .max_unused = max_unused};
    cache->buckets = calloc(cache->num_buckets, sizeof(struct stop_entry *));
    if (!cache->buckets) {
        *cache = (struct stop_cache){0};
        return status_error(STATUS_NO_MEMORY, "no memory for the table of stop strings");
    }
    return status_ok();
}

void stop_cache_deinit(struct stop_cache *cache)
{
    for (size_t i = 0; i < cache->num_buckets; i++) {
        for (struct stop_entry *entry = cache->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry_free(entry);
        }
    }
    free(cache->buckets);
    *cache = (struct stop_cache){0};
}

struct status stop_cache_take(struct stop_cache *cache, const struct bytes *strings,
                              size_t num_strings, const struct stop_match **out)
{
    struct status status;
    struct stop_entry *entry;

    if (num_strings == 0) {
        *out = NULL;
        return status_ok();
    }
    uint64_t hash = hash_of(strings, num_strings);
    size_t key_size = key_size_of(strings, num_strings);
    for (entry = cache->buckets[hash & (cache->num_buckets - 1)]; entry; entry = entry->next) {
        if (entry->hash == hash && entry->key_size == key_size &&
            key_is(entry, strings, num_strings)) {
            if (entry->num_users++ == 0)
                unused_remove(cache, entry);
            *out = &entry->match;
            return status_ok();
        }
    }
    entry = calloc(1, sizeof(*entry) + key_size);
    if (!entry)
        return status_error(STATUS_NO_MEMORY, "no memory for stop strings");
    status = stop_match_init(&entry->match, strings, num_strings);
    if (status.code) {
        free(entry);
        return status;
    }
    key_write(strings, num_strings, entry->key);
    entry->key_size = key_size;
    entry->hash = hash;
    entry->num_users = 1;
    grow(cache);
    struct stop_entry **bucket = &cache->buckets[hash & (cache->num_buckets - 1)];
    entry->next = *bucket;
    *bucket = entry;
    cache->num_entries++;
    *out = &entry->match;
    return status_ok();
}

void stop_cache_give(struct stop_cache *cache, const struct stop_match *match)
{
    if (!match)
        return;
    struct stop_entry *entry = (struct stop_entry *)(uintptr_t)match;
    assert(entry->num_users > 0);
    if (--entry->num_users > 0)
        return;
    unused_add(cache, entry);
    if (cache->num_unused > cache->max_unused)
        evict(cache);
}

void stop_cache_check(const struct stop_cache *cache)
{
    size_t num_entries = 0, num_unused = 0, num_listed = 0;

    for (size_t i = 0; i < cache->num_buckets; i++) {
        for (struct stop_entry *entry = cache->buckets[i]; entry; entry = entry->next) {
            assert((entry->hash & (cache->num_buckets - 1)) == i);
            stop_match_check(&entry->match);
            num_entries++;
            num_unused += entry->num_users == 0;
        }
    }
    for (struct stop_entry *entry = cache->newest; entry; entry = entry->older) {
        assert(entry->num_users == 0 && (entry->older || entry == cache->oldest));
        num_listed++;
    }
    assert(num_entries == cache->num_entries && num_unused == cache->num_unused);
    assert(num_listed == num_unused && num_unused <= cache->max_unused);
    (void)num_entries, (void)num_unused, (void)num_listed;
}
