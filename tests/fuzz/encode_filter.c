/* encode_filter.c - the filter `encode` over any tokenizer.json: `encode_filter FILE < lines >
 * lines`. */
#include <stdio.h>

#include "common/file.h"
#include "tokenizer_proc/filter_encode.h"

int main(int argc, char **argv)
{
    struct file_map map = {0};
    struct tokenizer *tokenizer = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: encode_filter TOKENIZER.JSON\n");
        return 2;
    }
    struct status status = file_map_open(&map, argv[1]);
    if (!status.code)
        status = tokenizer_load(map.data, map.size, &tokenizer);
    file_map_close(&map);
    if (!status.code)
        status = filter_encode(tokenizer, stdin, stdout);
    tokenizer_destroy(&tokenizer);
    if (status.code)
        fprintf(stderr, "encode_filter: %s\n", status.msg);
    return status.code ? 1 : 0;
}
