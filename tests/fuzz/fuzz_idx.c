/* IDX files out of any bytes, gzip'd or not: read whole, or refused with a message; never more. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    iso_idx idx = {0};
    iso_status status = iso_idx_parse(bytes, size, "fuzzed", &idx);
    if (status == ISO_OK) {
        int64_t count = 0;
        if (iso_shape_count(&idx.shape, &count) != ISO_OK || count < 1)
            abort();
        /* Every element is there. */
        volatile uint8_t sum = 0;
        const uint8_t *data = idx.data;
        for (size_t i = 0; i < (size_t)count * iso_dtype_size(idx.dtype); i++)
            sum = (uint8_t)(sum + data[i]);
        iso_free(idx.data);
    } else if (idx.data || !strstr(iso_error_message(), "fuzzed")) {
        abort();
    }
    return 0;
}
