/*
 * fuzz_encode.c - any text through pipelines of every family.
 *
 * Input: the pipeline, flags, a range of the text that is a caller's data, then the text. Checked:
 * text that is not UTF-8 is refused; an old cache gives the same ids as a young one; without
 * normaliser, prefix space and removed parts, the ids' bytes side by side are the text; no special
 * token is found in data.
 */
#include <stdio.h>

#include "common/utf8.h"
#include "tests/unit/small_tokenizer.h"
#include "tokenizer_proc/tokenizer.h"
#include "tokenizer_proc/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define SPLIT(pattern, behavior, invert)                                                           \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"" behavior         \
    "\",\"invert\":" invert "}"
#define BYTES(prefix, regex)                                                                       \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"use_regex\":" regex "}"
#define SEQUENCE(parts) "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]},"
#define NFC             "\"normalizer\":{\"type\":\"NFC\"},"
#define CONTRACTIONS    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES          "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORDS(numbers)                                                                             \
    CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" numbers                               \
                 "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*" SPACES
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define O200K                                                                                      \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS                              \
    "?|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS                            \
    "?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" SPACES
#define DEEPSEEK                                                                                   \
    "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|"                           \
    "[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| "                                  \
    "?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*" SPACES

static const struct {
    const char *pipeline, *model;
    bool keeps_text;
} pipelines[] = {
    {SEQUENCE(SPLIT(WORDS("\\\\p{N}"), "Isolated", "false") "," BYTES("false", "false")), "", true},
    {SEQUENCE(SPLIT(WORDS("\\\\p{N}{1,3}"), "Isolated", "false") "," BYTES("false", "false")),
     "\"ignore_merges\":true,", true},
    {SEQUENCE(SPLIT(O200K, "Removed", "true") "," BYTES("false", "false")), "", true},
    {SEQUENCE(SPLIT("\\\\p{N}{1,3}", "Isolated", "false") "," SPLIT(
         "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "Isolated",
         "false") "," SPLIT(DEEPSEEK, "Isolated", "false") "," BYTES("false", "false")),
     "", true},
    {SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," BYTES("false", "true")), "",
     true},
    {SEQUENCE(SPLIT("\\\\p{N}+", "MergedWithPrevious", "false") "," SPLIT(
         "\\\\p{N}", "MergedWithNext", "true") "," BYTES("false", "true")),
     "", true},
    {NFC SEQUENCE("{\"type\":\"Digits\"}," BYTES("true", "true")), "", false},
    {NFC SEQUENCE(SPLIT("\\\\p{N}+", "Removed", "false") "," SPLIT(
         "\\\\p{N}", "Contiguous", "false") "," BYTES("true", "false")),
     "", false},
};

enum { NUM_PIPELINES = sizeof(pipelines) / sizeof(pipelines[0]), NUM_MERGES = 16, SPECIAL = 300 };

static const char *const merges[2 * NUM_MERGES + 2] = {
    "a",    "b",    "ab",   "ab",   " ",        " ",    "\n",           "\n",
    " ",    "a",    "\xE4", "\xBD", "\xE4\xBD", "\xA0", "\xE4\xBD\xA0", "\xE5",
    "\xCC", "\x81", "1",    "2",    "12",       "3",    "  ",           "  ",
    "'",    "s",    "\xE5", "\xA5", "\xE5\xA5", "\xBD", "\xE4\xBD\xA0", "\xE5\xA5\xBD"};

static struct tokenizer *tokenizers[NUM_PIPELINES];
static struct encoder *warm[NUM_PIPELINES];

static void expect(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char added[] =
        "\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":301,\"content\":\"<t>\"},{\"id\":302,\"content\":\"<l>\",\"lstrip\":true},"
        "{\"id\":303,\"content\":\"<r>\",\"rstrip\":true},"
        "{\"id\":304,\"content\":\"<w>\",\"single_word\":true},"
        "{\"id\":305,\"content\":\"<\xC3\xA9>\",\"normalized\":true},"
        "{\"id\":306,\"content\":\"<\xC3\xA8>\",\"normalized\":true,\"special\":true}],";

    (void)argc;
    (void)argv;
    for (size_t i = 0; i < NUM_PIPELINES; i++) {
        char text[4096];
        snprintf(text, sizeof(text), "%s%s", added, pipelines[i].pipeline);
        char *json = small_tokenizer(text, merges, pipelines[i].model);
        struct status status = tokenizer_load(json, strlen(json), &tokenizers[i]);
        if (status.code)
            fprintf(stderr, "%s\n", status.msg);
        expect(!status.code && !encoder_create(tokenizers[i], &warm[i]).code);
        free(json);
    }
    return 0;
}

/* The bytes of an id of a small tokenizer. */
static size_t put_bytes(int32_t id, char *out)
{
    static const char *const added[] = {"<s>", "<t>",        "<l>",       "<r>",
                                        "<w>", "<\xC3\xA9>", "<\xC3\xA8>"};
    const char *parts[2] = {NULL, NULL};
    size_t size = 0;

    if (id < 256) {
        out[0] = (char)id;
        return 1;
    }
    if (id >= SPECIAL) {
        parts[0] = added[id - SPECIAL];
    } else {
        parts[0] = merges[2 * (id - 256)];
        parts[1] = merges[2 * (id - 256) + 1];
    }
    for (int i = 0; i < 2 && parts[i]; i++) {
        memcpy(out + size, parts[i], strlen(parts[i]));
        size += strlen(parts[i]);
    }
    return size;
}

/* The ids' bytes are the text but for what strips may have swallowed: then only their order is
 * checked. */
static void check_text(const struct token_list *ids, const char *text, size_t size)
{
    char bytes[16];
    size_t at = 0;

    for (size_t i = 0; i < ids->num_ids; i++) {
        size_t n = put_bytes(ids->ids[i], bytes);
        while (at + n <= size && memcmp(text + at, bytes, n) != 0)
            at++; /* swallowed blanks */
        expect(at + n <= size);
        at += n;
    }
}

/* The heap gives what the faster ways give, for the text as one piece. */
static void check_heap(const struct bpe *bpe, const uint8_t *text, size_t size)
{
    struct bpe_scratch scratch = {0};
    struct token_list fast = {0}, slow = {0};

    expect(!bpe_encode(bpe, &scratch, text, size, &fast).code);
    expect(!bpe_encode_heap(bpe, &scratch, text, size, &slow).code);
    expect(fast.num_ids == slow.num_ids);
    expect(!fast.num_ids || memcmp(fast.ids, slow.ids, fast.num_ids * sizeof(*fast.ids)) == 0);
    token_list_deinit(&fast);
    token_list_deinit(&slow);
    bpe_scratch_deinit(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct encoder *fresh[NUM_PIPELINES];
    static int num_runs;
    struct token_list ids = {0}, again = {0};

    if (size < 4)
        return 0;
    size_t which = data[0] % NUM_PIPELINES;
    struct encode_args args = {
        .text = (const char *)data + 4,
        .size = size - 4,
        .parse_special = data[1] & 1,
        .add_special_tokens = data[1] & 2,
    };
    struct text_range range = {data[2], data[2] + data[3]};
    if (range.start > args.size)
        range.start = args.size;
    if (range.end > args.size)
        range.end = args.size;
    if (data[1] & 4) {
        args.data_ranges = &range;
        args.num_data_ranges = 1;
    }
    struct status status = encoder_encode(warm[which], &args, &ids);
    expect(!status.code == (utf8_is_valid(data + 4, args.size)));
    if (num_runs++ % 128 == 32 || !fresh[which]) { /* often enough, and a new cache is not cheap */
        encoder_destroy(&fresh[which]);
        fresh[which] = NULL;
        expect(!encoder_create(tokenizers[which], &fresh[which]).code);
    }
    expect(encoder_encode(fresh[which], &args, &again).code == status.code);
    expect(ids.num_ids == again.num_ids);
    expect(!ids.num_ids || memcmp(ids.ids, again.ids, ids.num_ids * sizeof(*ids.ids)) == 0);
    if (!status.code && pipelines[which].keeps_text)
        check_text(&ids, args.text, args.size);
    for (size_t i = 0; i < ids.num_ids; i++)
        expect((ids.ids[i] != SPECIAL && ids.ids[i] != SPECIAL + 6) ||
               (args.parse_special && !(args.num_data_ranges && range.start == 0 &&
                                        range.end == args.size && args.size > 0)));
    check_heap(&tokenizers[which]->bpe, data + 4, args.size);
    token_list_deinit(&ids);
    token_list_deinit(&again);
    return 0;
}
