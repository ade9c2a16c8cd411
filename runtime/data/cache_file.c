/* Which rank makes the file, and what becomes of a broken one. */
#include "runtime/data/cache_file_impl.h"

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/data/dataset_impl.h"

enum { WHY = 256 };

typedef struct wish {
    const char *path;
    iso_cache_layout layout;
    iso_level *top;
    const iso_order *order;
} wish;

static iso_status look(const wish *w, bool verify, iso_level **level, char *why)
{
    return iso_cache_file_open(w->path, &w->layout, verify, w->top->name, level, why, WHY);
}

/* Sees to it that this rank can see a good file. */
static iso_status provide(const wish *w)
{
    char why[WHY] = "";
    iso_level *level = NULL;
    iso_status status = look(w, true, &level, why);
    iso_level_release(level);
    if (status != ISO_OK || level)
        return status;
    if (*why)
        iso_warn("cache '%s': %s; it is made anew", w->path, why);
    return iso_cache_file_write(w->path, &w->layout, w->top, w->order);
}

static iso_status take(const wish *w, iso_level **level)
{
    char why[WHY] = "";
    iso_status status = look(w, false, level, why);
    if (status == ISO_OK && !*level)
        return iso_error(ISO_IO, "cache '%s' was made, but is not to be seen here%s%s", w->path,
                         *why ? ": " : "", why);
    return status;
}

iso_status iso_cache_file(iso_context *ctx, const char *path, iso_level *top, const iso_order *order,
                          iso_level **level)
{
    wish w = {.path = path, .top = top, .order = order};
    int rank = iso_data_rank(ctx);
    iso_level *fresh = NULL;
    iso_status status = iso_cache_layout_of(top, order, &w.layout);
    if (status == ISO_OK && rank == 0)
        status = provide(&w);
    ISO_TRY(iso_data_agree(ctx, status));
    /* Hosts that share no file system with the chief make their own. */
    if (rank > 0 && iso_data_leads_host(ctx))
        status = provide(&w);
    ISO_TRY(iso_data_agree(ctx, status));
    ISO_TRY(iso_data_agree(ctx, take(&w, &fresh)));
    *level = fresh;
    return ISO_OK;
done:
    iso_level_release(fresh);
    return status;
}
