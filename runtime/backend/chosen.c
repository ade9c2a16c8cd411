#include "runtime/backend/chosen.h"

static const iso_backend *chosen;

const iso_backend *iso_backend_chosen(void)
{
    return chosen ? chosen : iso_backend_cpu();
}

void iso_backend_choose(const iso_backend *backend)
{
    chosen = backend;
}
