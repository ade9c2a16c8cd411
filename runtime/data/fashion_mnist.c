/* Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 + 10,000 grey images of 28 x 28, 10 classes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/base/text.h"
#include "runtime/data/open_impl.h"

static const char debian_folder[] = "/usr/share/datasets/fashion-mnist";

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static iso_status open_fashion_mnist(iso_part part, uint64_t seed, iso_node **node)
{
    const char *data = getenv("ISOGRID_DATA");
    iso_text own = {0};
    iso_status status;
    (void)seed;
    iso_text_add(&own, "%s/fashion-mnist", data ? data : "");
    if (data && is_folder(iso_text_get(&own)))
        status = iso_open_folder(iso_text_get(&own), part, "fashion-mnist", node);
    else if (is_folder(debian_folder))
        status = iso_open_folder(debian_folder, part, "fashion-mnist", node);
    else
        status = iso_error(ISO_INVALID,
                           "fashion-mnist: there is no folder '%s'%s%s; install Debian's package "
                           "dataset-fashion-mnist, or set "
                           "ISOGRID_DATA to a folder that holds fashion-mnist/",
                           debian_folder, data ? " and no " : "", data ? iso_text_get(&own) : "");
    iso_text_free(&own);
    return status;
}

extern const iso_builtin iso_builtin_fashion_mnist;
const iso_builtin iso_builtin_fashion_mnist = {
    .name = "fashion-mnist",
    .description = "60,000 + 10,000 grey images of clothes, [28, 28, 1] bytes, 10 classes",
    .open = open_fashion_mnist,
};
