/* libFuzzer: any bytes as a .keras file: its zip container, whose members are read and unpacked. */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "models/keras/archive.h"
#include "runtime/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(iso_keras_archive *archive)
{
    char *text = NULL;
    size_t bytes;
    if (iso_keras_archive_read(archive, ISO_KERAS_CONFIG, &text, &bytes) == ISO_OK)
        iso_free(text);
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (file >= 0)
        (void)iso_keras_archive_unpack(archive, ISO_KERAS_WEIGHTS, file, "/dev/null");
    if (file >= 0)
        close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_keras_archive *archive;
    if (iso_keras_archive_open_memory("file.keras", data, size, &archive) == ISO_OK) {
        read_all(archive);
        iso_keras_archive_close(archive);
    }
    return 0;
}
