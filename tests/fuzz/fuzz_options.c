/* libFuzzer: any bytes as a command line. Words are separated by newlines. */
#include <stdlib.h>
#include <string.h>

#include "launch/train_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_WORDS = 200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char *argv[MAX_WORDS + 2] = {(char *)"train"};
    int argc = 1;
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    for (char *word = text, *next; word && argc <= MAX_WORDS; word = next) {
        next = strchr(word, '\n');
        if (next)
            *next++ = '\0';
        argv[argc++] = word;
    }
    iso_train_options options;
    if (iso_train_options_parse(argc, argv, &options) == ISO_OK && options.batch_size < 1)
        abort();
    free(text);
    return 0;
}
