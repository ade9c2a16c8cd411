/* isogrid plan --suggest: layouts for a mesh, or for the best mesh of a number of slots. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/plan_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

enum { MOST_MESHES = 12, MOST_MODEL = 64 }; /* meshes that are tried, and the size of their second axis */

/* ---- the file ---- */

/* Axes joined by '+', of `length` characters, or '-', as Keras has them: null, "a", or ["a", "b"]. */
static json_t *dimension(const char *text, size_t length)
{
    json_t *axes = json_array();
    while (length) {
        size_t name = strcspn(text, "+, ");
        name = name < length ? name : length;
        if (name && !(name == 1 && *text == '-'))
            json_array_append_new(axes, json_stringn(text, name));
        size_t step = name < length ? name + 1 : name;
        text += step;
        length -= step;
    }
    json_t *only = json_array_size(axes) == 1 ? json_incref(json_array_get(axes, 0)) : NULL;
    json_t *value = json_array_size(axes) == 0 ? json_null() : only ? only : json_incref(axes);
    json_decref(axes);
    return value;
}

/* "data+model, -" as [["data", "model"], null] */
static json_t *tuple(const char *layout)
{
    json_t *list = json_array();
    for (;;) {
        size_t length = strcspn(layout, ",");
        json_array_append_new(list, dimension(layout, length));
        if (!layout[length])
            return list;
        layout += length + 1;
    }
}

/* One key on each line. */
static iso_status print_file(const iso_suggestion *suggestion)
{
    iso_text text = {0};
    for (int i = 0; i < suggestion->n_layouts; i++) {
        iso_text_add(&text, "%s\n    ", i ? "," : "");
        iso_json_add(&text, json_string(suggestion->layouts[i].path), 0);
        iso_text_add(&text, ": ");
        iso_json_add(&text, tuple(suggestion->layouts[i].layout), 0);
    }
    bool failed = text.failed;
    if (!failed)
        printf("{%s%s}\n", iso_text_get(&text), suggestion->n_layouts ? "\n" : "");
    iso_text_free(&text);
    return failed ? iso_error(ISO_NO_MEMORY, "no memory for a layout file") : ISO_OK;
}

/* ---- the meshes ---- */

typedef struct found {
    char mesh[64];
    iso_suggestion *suggestion;
} found;

/* Shows on a terminal how many plans have been compared. */
typedef struct progress {
    const char *mesh;
    bool shown;
    double last;
} progress;

static void show_progress(void *user, int tried)
{
    progress *p = user;
    double now = iso_clock();
    if (now - p->last < 0.1)
        return;
    p->last = now;
    p->shown = true;
    fprintf(stderr, "\rmesh %s: %d plans", p->mesh, tried);
    fflush(stderr);
}

static void end_progress(const progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
}

static iso_status search(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p, found *out,
                         int searches)
{
    iso_mesh *mesh = NULL;
    progress shown = {.mesh = out->mesh, .last = iso_clock()};
    iso_suggest_options how = {.rows = options->train.batch_size,
                               .slots_per_host = (int)options->slots_per_host,
                               .memory = options->limit,
                               .memory_of_slot = options->limit_of_slot,
                               .time = p->time.calibration ? &p->time : NULL,
                               .starts_only = searches == 0,
                               .searches = searches};
    if (iso_is_chief(ctx) && isatty(STDERR_FILENO)) {
        how.progress = show_progress;
        how.user = &shown;
    }
    iso_suggestion_destroy(out->suggestion);
    out->suggestion = NULL;
    iso_status status = iso_mesh_abstract(ctx, out->mesh, &mesh);
    if (status == ISO_OK)
        status = iso_agree(ctx, iso_function_suggest(iso_model_graph(p->named.model), mesh, &p->training,
                                                     &how, &out->suggestion));
    end_progress(&shown);
    iso_mesh_destroy(mesh);
    return status;
}

/* Meshes of `slots` slots: data parallel, then a second axis of every size that divides the number. */
static int list_meshes(int64_t slots, found *list)
{
    int count = 0;
    for (int64_t model = 1; model <= slots && model <= MOST_MODEL && count < MOST_MESHES; model++) {
        if (slots % model)
            continue;
        if (model == 1)
            snprintf(list[count++].mesh, sizeof list->mesh, "data=%lld", (long long)slots);
        else
            snprintf(list[count++].mesh, sizeof list->mesh, "data=%lld,model=%lld",
                     (long long)(slots / model), (long long)model);
    }
    return count;
}

/* A mesh is better only if it costs at least a tenth less than data parallel, the first of the meshes. */
static const double CLEARLY = 0.1;

static bool better(const iso_suggestion *a, const iso_suggestion *b, double part)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->fits ? a->cost < b->cost * part : a->host_bytes < b->host_bytes;
}

/* Data parallel if no other mesh is clearly better. */
static int find_best(const found *list, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (better(list[i].suggestion, list[best].suggestion, 1))
            best = i;
    return better(list[best].suggestion, list[0].suggestion, 1 - CLEARLY) ? best : 0;
}

static void print_found(const found *f, bool timed)
{
    char flops[32], bytes[32], slot[32], host[32];
    const iso_suggestion *s = f->suggestion;
    fprintf(stderr,
            "mesh %s: a slot computes %s and receives %s in a step; memory of a slot %s, of a host %s%s (%d "
            "plans)\n",
            f->mesh, iso_text_scaled(s->flops, "FLOP", flops, sizeof flops),
            iso_text_scaled(s->bytes, "B", bytes, sizeof bytes),
            iso_text_scaled((double)s->slot_bytes, "B", slot, sizeof slot),
            iso_text_scaled((double)s->host_bytes, "B", host, sizeof host), s->fits ? "" : ", too much",
            s->tried);
    if (timed)
        fprintf(stderr, "mesh %s: a step takes %.3g ms\n", f->mesh, 1e3 * s->cost);
}

static iso_status no_fit(const iso_plan_options *options, const found *best)
{
    char need[32];
    const iso_suggestion *s = best->suggestion;
    return iso_error(ISO_INVALID,
                     "no layouts were found that fit into --memory %s; the least is %s, on the mesh %s",
                     options->memory,
                     iso_text_scaled((double)(options->limit_of_slot ? s->slot_bytes : s->host_bytes), "B",
                                     need, sizeof need),
                     best->mesh);
}

/* Searches tensor by tensor on data parallel's mesh and on the most promising other one. */
static iso_status search_promising(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p,
                                   found *list, int count)
{
    int other = count > 1 ? 1 : 0;
    for (int i = 2; i < count; i++)
        if (better(list[i].suggestion, list[other].suggestion, 1))
            other = i;
    iso_status status = search(ctx, options, p, &list[0], other ? 2 : 1);
    return status == ISO_OK && other ? search(ctx, options, p, &list[other], 2) : status;
}

iso_status iso_plan_suggest(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    found list[MOST_MESHES] = {{{0}, NULL}};
    iso_status status = ISO_OK;
    int count = 1, best = 0;
    if (options->slots)
        count = list_meshes(options->slots, list);
    else
        snprintf(list[0].mesh, sizeof list[0].mesh, "%s",
                 options->train.mesh ? options->train.mesh : "data=*");
    for (int i = 0; i < count && count > 1; i++)
        ISO_TRY(search(ctx, options, p, &list[i], 0));
    ISO_TRY(search_promising(ctx, options, p, list, count));
    for (int i = 0; i < count && iso_is_chief(ctx); i++)
        print_found(&list[i], p->time.calibration != NULL);
    best = find_best(list, count);
    if (!list[best].suggestion->fits)
        ISO_TRY(no_fit(options, &list[best]));
    if (iso_is_chief(ctx) && count > 1)
        fprintf(stderr, "the layouts are for --mesh %s\n", list[best].mesh);
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? print_file(list[best].suggestion) : ISO_OK));
done:
    for (int i = 0; i < count; i++)
        iso_suggestion_destroy(list[i].suggestion);
    return status;
}
