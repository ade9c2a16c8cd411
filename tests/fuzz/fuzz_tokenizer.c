/* libFuzzer: any bytes as a tokenizer.json; a tokenizer that is accepted encodes a text and decodes its ids. */
#include <stdint.h>

#include "runtime/base/memory.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const iso_tokenizer *tokenizer)
{
    static const char text[] =
        "The tokens, don't  \n 123 \xd0\x94\xd0\xb0 \xe4\xb8\x96 \xc4\xb0 e\xcc\x81 <s> aaaaaaaaaaaaaaaaaaaa";
    int32_t *ids = NULL;
    size_t count, bytes;
    char *back = NULL;
    if (iso_tokenizer_encode(tokenizer, text, sizeof text - 1, true, &ids, &count) == ISO_OK)
        iso_tokenizer_decode(tokenizer, ids, count, true, &back, &bytes);
    iso_free(ids);
    iso_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_tokenizer *tokenizer = NULL;
    if (iso_tokenizer_parse("tokenizer.json", (const char *)data, size, &tokenizer) == ISO_OK)
        use(tokenizer);
    iso_tokenizer_close(tokenizer);
    return 0;
}
