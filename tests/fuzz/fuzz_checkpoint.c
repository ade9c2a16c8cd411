/* libFuzzer: any bytes as what is read of a checkpoint before HDF5 is trusted with it. The first byte
 * chooses: a file with its commit record, a mark whose checksum is right whatever it says, the list of tensors
 * that a child hands over, /isogrid/index. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/manifest_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_mark(int file)
{
    bool found = false;
    iso_commit_record mark = {0};
    if (iso_commit_record_read(file, "file", &found, &mark) == ISO_OK && found)
        iso_commit_record_check_others(file, "file", &mark);
    iso_commit_record_free(&mark);
}

static void fuzz_file(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file >= 0 && write(file, data, size) == (ssize_t)size)
        read_mark(file);
    close(file);
}

/* Fields from the data; iso_commit_record_write() makes the checksum right. */
static void fuzz_fields(const uint8_t *data, size_t size)
{
    iso_commit_tensor tensor[64] = {{0}};
    uint64_t head[2] = {0};
    memcpy(head, data, size < sizeof head ? size : sizeof head);
    size_t rest = size > sizeof head ? size - sizeof head : 0;
    if (rest > sizeof tensor)
        rest = sizeof tensor;
    if (rest > 0)
        memcpy(tensor, data + sizeof head, rest);
    iso_commit_record mark = {.number = head[1], .hdf5_bytes = head[0] % 65536, .tensors = tensor};
    mark.n_tensors = (int)(rest / sizeof tensor[0]);
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    if (file >= 0 && iso_commit_record_write(file, "file", &mark) == ISO_OK)
        read_mark(file);
    close(file);
}

static void use(iso_manifest *manifest)
{
    void *packed = NULL;
    size_t bytes = 0;
    if (iso_manifest_index(manifest) == ISO_OK)
        for (int i = 0; i < manifest->ordered; i++) {
            const iso_saved_tensor *tensor = &manifest->tensors[manifest->order[i]].tensor;
            if (iso_manifest_at(manifest, tensor->h5_path) != manifest->order[i] ||
                (tensor->path && iso_manifest_of(manifest, tensor->path) != manifest->order[i]))
                abort();
        }
    if (iso_manifest_pack(manifest, &packed, &bytes) != ISO_OK)
        abort();
    iso_free(packed);
    iso_manifest_free(manifest);
}

static void fuzz_manifest(const uint8_t *data, size_t size)
{
    iso_manifest manifest = {0};
    if (iso_manifest_unpack(data, size, 4096, &manifest) == ISO_OK)
        use(&manifest);
}

static void fuzz_index(const uint8_t *data, size_t size)
{
    static const char *const places[] = {"/a", "/b/0", "/b/1"};
    iso_manifest manifest = {0};
    for (int i = 0; i < 3; i++) {
        iso_manifest_tensor tensor = {.tensor.h5_path = places[i]};
        iso_manifest_add_tensor(&manifest, &tensor);
    }
    manifest.index = iso_new(size + 1);
    memcpy(manifest.index, data, size);
    use(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const targets[])(const uint8_t *, size_t) = {fuzz_file, fuzz_fields, fuzz_manifest,
                                                               fuzz_index};
    if (size > 0)
        targets[data[0] % 4](data + 1, size - 1);
    return 0;
}
