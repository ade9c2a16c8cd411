/* The list of the built-in data sets. */
#include <string.h>

#include "runtime/data/idx.h"
#include "runtime/data/open_impl.h"

extern const iso_builtin iso_builtin_fashion_mnist;
extern const iso_builtin iso_builtin_random;

static const iso_builtin *const list[] = {
    &iso_builtin_fashion_mnist,
    &iso_builtin_random,
};

int iso_dataset_count(void)
{
    return (int)(sizeof list / sizeof list[0]);
}

const char *iso_dataset_name(int index)
{
    return index >= 0 && index < iso_dataset_count() ? list[index]->name : NULL;
}

const char *iso_dataset_description(int index)
{
    return index >= 0 && index < iso_dataset_count() ? list[index]->description : NULL;
}

const iso_builtin *iso_builtin_find(const char *name)
{
    for (int i = 0; i < iso_dataset_count(); i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    return NULL;
}

iso_status iso_builtin_folder(const char *name, char **folder)
{
    const iso_builtin *builtin = iso_builtin_find(name);
    *folder = NULL;
    return builtin && builtin->folder ? builtin->folder(folder) : ISO_OK;
}
