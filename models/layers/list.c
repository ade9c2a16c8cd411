/* The list of layer types. */
#include <string.h>

#include "models/layers/list.h"

static const iso_layer_type *const types[] = {
#define LAYER(name) &iso_layer_##name,
#include "models/layers/list.h"
};

int iso_layer_type_count(void)
{
    return (int)(sizeof types / sizeof types[0]);
}

const iso_layer_type *iso_layer_type_at(int index)
{
    return types[index];
}

const iso_layer_type *iso_layer_type_find(const char *keras)
{
    for (int i = 0; i < iso_layer_type_count(); i++)
        if (strcmp(types[i]->keras, keras) == 0)
            return types[i];
    return NULL;
}
