#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/text.h"

iso_status iso_file_failed(const char *path, const char *what)
{
    return iso_error(ISO_IO, "'%s': %s: %s", path, what, strerror(errno));
}

char *iso_file_join(const char *folder, const char *name)
{
    iso_text text = {0};
    iso_text_add(&text, "%s/%s", folder, name);
    return text.data;
}

bool iso_file_name_ends(const char *path, const char *end)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

static iso_status write_all(int file, const char *path, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return iso_file_failed(path, "writing failed");
        data += written;
        bytes -= (size_t)written;
    }
    return fsync(file) ? iso_file_failed(path, "writing failed") : ISO_OK;
}

iso_status iso_file_replace(const char *path, const void *data, size_t bytes)
{
    iso_text beside = {0};
    iso_text_add(&beside, "%s.%ld.new", path, (long)getpid());
    if (beside.failed) {
        iso_text_free(&beside);
        return iso_error(ISO_NO_MEMORY, "no memory for the name of '%s'", path);
    }
    const char *name = iso_text_get(&beside);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    iso_status status =
        file < 0 ? iso_file_failed(path, "it cannot be written") : write_all(file, path, data, bytes);
    if (file >= 0 && close(file) && status == ISO_OK)
        status = iso_file_failed(path, "writing failed");
    if (status == ISO_OK && rename(name, path))
        status = iso_file_failed(path, "it cannot be replaced");
    if (status != ISO_OK && file >= 0)
        unlink(name);
    iso_text_free(&beside);
    return status;
}
