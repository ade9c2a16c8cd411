/* Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28 x 28, 10 classes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/data/open_impl.h"

static const char debian_folder[] = "/usr/share/datasets/fashion-mnist";

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static iso_status find_folder(char **path)
{
    const char *data = getenv("ISOGRID_DATA");
    char *own = data ? iso_file_join(data, "fashion-mnist") : NULL;
    *path = NULL;
    if (data && !own)
        return iso_no_memory("the folder of fashion-mnist");
    if (own && is_folder(own)) {
        *path = own;
        return ISO_OK;
    }
    iso_free(own);
    *path = is_folder(debian_folder) ? iso_strdup(debian_folder) : NULL;
    return *path || !is_folder(debian_folder) ? ISO_OK : iso_no_memory("the folder of fashion-mnist");
}

static iso_status not_installed(void)
{
    const char *data = getenv("ISOGRID_DATA");
    return iso_error(ISO_INVALID,
                     "fashion-mnist: there is no folder '%s'%s%s%s; install Debian's package "
                     "dataset-fashion-mnist, or set "
                     "ISOGRID_DATA to a folder that holds fashion-mnist/",
                     debian_folder, data ? " and no " : "", data ? data : "", data ? "/fashion-mnist" : "");
}

static iso_status open_fashion_mnist(iso_part part, uint64_t seed, iso_node **node)
{
    char *folder;
    (void)seed;
    iso_status status = find_folder(&folder);
    if (status == ISO_OK)
        status = folder ? iso_open_folder(folder, part, "fashion-mnist", node) : not_installed();
    iso_free(folder);
    return status;
}

extern const iso_builtin iso_builtin_fashion_mnist;
const iso_builtin iso_builtin_fashion_mnist = {
    .name = "fashion-mnist",
    .description = "60,000 + 10,000 grey images of clothes, [28, 28, 1] bytes, 10 classes",
    .open = open_fashion_mnist,
    .folder = find_folder,
};
