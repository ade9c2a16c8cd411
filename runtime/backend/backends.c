/* The list of backends, and the choice of one by name. */
#include <string.h>

#include "runtime/backend/list.h"
#include "runtime/base/text.h"

static bool only_plans;

void iso_backend_only_plan(void)
{
    only_plans = true;
}

bool iso_backend_only_plans(void)
{
    return only_plans;
}

static const iso_backend *(*const list[])(void) = {
#define BACKEND(name) iso_backend_##name,
#include "runtime/backend/list.h"
};
enum { BACKENDS = sizeof list / sizeof *list };

static const iso_backend *added;

void iso_backend_add(const iso_backend *backend)
{
    added = backend;
}

static const iso_backend *backend_at(int i)
{
    return i < BACKENDS ? list[i]() : i == BACKENDS ? added : NULL;
}

int iso_backend_number(const iso_backend *backend)
{
    int number = 0;
    while (backend_at(number) && backend_at(number) != backend)
        number++;
    return number;
}

const iso_backend *iso_backend_numbered(int number)
{
    return backend_at(number);
}

static const char *why_not(const iso_backend *backend)
{
    return backend->unavailable ? backend->unavailable() : NULL;
}

/* "cpu, reference, cuda (not here: there is no driver)"; without the one that was named. */
static void add_all(const iso_backend *named, iso_text *text)
{
    const iso_backend *backend;
    for (int i = 0; (backend = backend_at(i)); i++) {
        const char *reason = backend == named ? NULL : why_not(backend);
        if (backend == named)
            continue;
        iso_text_add(text, "%s%s", text->length ? ", " : "", backend->name);
        if (reason)
            iso_text_add(text, " (not here: %s)", reason);
    }
}

static iso_status refuse(const char *name, const iso_backend *named)
{
    iso_text all = {0};
    add_all(named, &all);
    iso_status status =
        named ? iso_error(ISO_INVALID, "the backend '%s' cannot be used here: %s; others are %s", name,
                          why_not(named), iso_text_get(&all))
              : iso_error(ISO_INVALID, "there is no backend '%s'; the backends are %s", name,
                          iso_text_get(&all));
    iso_text_free(&all);
    return status;
}

iso_status iso_backend_find(const char *name, const iso_backend **out)
{
    bool any = strcmp(name, "auto") == 0;
    const iso_backend *backend, *named = NULL;
    for (int i = 0; (backend = backend_at(i)); i++) {
        if (!any && strcmp(backend->name, name) != 0)
            continue;
        named = backend;
        if (!why_not(backend)) {
            *out = backend;
            return ISO_OK;
        }
    }
    return refuse(name, named);
}
