#include "runtime/graph/ops/list.h"

#include <string.h>

static const iso_op_type *const types[] = {
#define OP(name) &iso_op_##name,
#include "runtime/graph/ops/list.h"
    NULL,
};

int iso_op_type_count(void)
{
    return (int)(sizeof(types) / sizeof(*types)) - 1;
}

const iso_op_type *iso_op_type_at(int index)
{
    return types[index];
}

const iso_op_type *iso_op_type_find(const char *name)
{
    for (int i = 0; i < iso_op_type_count(); i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}
