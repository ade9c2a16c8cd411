/* libFuzzer: any bytes as a .safetensors file. What is accepted is within the file, and survives packing. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/read/safetensors_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const iso_manifest *manifest, size_t file_bytes)
{
    iso_manifest again = {0};
    void *packed = NULL;
    size_t bytes = 0;
    if (iso_manifest_pack(manifest, &packed, &bytes) != ISO_OK ||
        iso_manifest_unpack(packed, bytes, file_bytes, &again) != ISO_OK ||
        iso_manifest_index(&again) != ISO_OK || again.n_tensors != manifest->n_tensors)
        abort();
    iso_free(packed);
    iso_manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_manifest manifest = {0};
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file >= 0 && write(file, data, size) == (ssize_t)size &&
        iso_safetensors_list(file, "file", size, &manifest) == ISO_OK)
        use(&manifest, size);
    iso_manifest_free(&manifest);
    close(file);
    return 0;
}
