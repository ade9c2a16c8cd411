/* isogrid plan --suggest, and `isogrid train --layout auto`: layouts for a mesh, or for the best mesh of a number of
 * slots. The chief searches. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/plan_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/exec/auto_sharding/search_layouts.h"
#include "runtime/spmd/distribution_json.h"

enum { MOST_MESHES = 12, MOST_MODEL = 64 }; /* meshes that are tried, and the size of their second axis */

/* ---- a search on one mesh ---- */

typedef struct found {
    iso_mesh *mesh; /* abstract */
    iso_suggestion *suggestion;
} found;

typedef struct searched {
    int count;
    found list[MOST_MESHES];
} searched;

enum { MANY_SLOTS = 10000 }; /* a plan of so many may take seconds */

/* Shows on a terminal how many plans have been compared. */
typedef struct progress {
    const char *mesh;
    bool shown;
    double last;
} progress;

/* Where there is no terminal. */
static void print_progress(void *user, int tried)
{
    const progress *p = user;
    fprintf(stderr, "mesh %s: %d plan%s compared\n", p->mesh, tried, tried > 1 ? "s" : "");
}

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

/* searches: the number of searches that share the time limit; 0: only the patterns with which searches begin. */
static iso_status search(const iso_plan_options *options, const iso_dry_run *p, found *out, int searches)
{
    progress shown = {.mesh = iso_mesh_text(out->mesh), .last = iso_clock()};
    iso_suggest_options how = {.rows = options->train.batch_size,
                               .slots_per_host = (int)options->slots_per_host,
                               .memory = options->limit,
                               .memory_of_slot = options->limit_of_slot,
                               .time = p->time.calibration ? &p->time : NULL,
                               .starts_only = searches == 0,
                               .searches = searches};
    how.user = &shown;
    if (options->train.verbose && isatty(STDERR_FILENO))
        how.progress = show_progress;
    else if (options->train.verbose && iso_mesh_slots(out->mesh) >= MANY_SLOTS)
        how.progress = print_progress;
    iso_suggestion_destroy(out->suggestion);
    out->suggestion = NULL;
    iso_status status = iso_function_suggest(iso_model_graph(p->named.model), out->mesh, &p->training, &how,
                                             &out->suggestion);
    end_progress(&shown);
    return status;
}

/* ---- the meshes ---- */

static iso_status add_mesh(iso_context *ctx, const char *text, searched *all)
{
    iso_status status = iso_mesh_abstract(ctx, text, &all->list[all->count].mesh);
    all->count += status == ISO_OK;
    return status;
}

/* Meshes of `slots` slots: data parallel, then a second axis of every size that divides the number. */
static iso_status list_meshes(iso_context *ctx, int64_t slots, searched *all)
{
    char text[64];
    iso_status status = ISO_OK;
    for (int64_t model = 1; model <= slots && model <= MOST_MODEL && all->count < MOST_MESHES; model++) {
        if (slots % model)
            continue;
        if (model == 1)
            snprintf(text, sizeof text, "data=%lld", (long long)slots);
        else
            snprintf(text, sizeof text, "data=%lld,model=%lld", (long long)(slots / model), (long long)model);
        ISO_TRY(add_mesh(ctx, text, all));
    }
done:
    return status;
}

static void free_searched(searched *all)
{
    for (int i = 0; i < all->count; i++) {
        iso_suggestion_destroy(all->list[i].suggestion);
        iso_mesh_destroy(all->list[i].mesh);
    }
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
static const found *find_best(const searched *all)
{
    const found *list = all->list;
    int best = 0;
    for (int i = 1; i < all->count; i++)
        if (better(list[i].suggestion, list[best].suggestion, 1))
            best = i;
    return better(list[best].suggestion, list[0].suggestion, 1 - CLEARLY) ? &list[best] : &list[0];
}

/* Searches tensor by tensor on data parallel's mesh and on the most promising other one. */
static iso_status search_promising(const iso_plan_options *options, const iso_dry_run *p, searched *all)
{
    found *list = all->list;
    int other = all->count > 1 ? 1 : 0;
    for (int i = 2; i < all->count; i++)
        if (better(list[i].suggestion, list[other].suggestion, 1))
            other = i;
    iso_status status = search(options, p, &list[0], other ? 2 : 1);
    return status == ISO_OK && other ? search(options, p, &list[other], 2) : status;
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
                     iso_mesh_text(best->mesh));
}

static iso_status search_all(const iso_plan_options *options, const iso_dry_run *p, searched *all)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < all->count && all->count > 1; i++)
        ISO_TRY(search(options, p, &all->list[i], 0));
    ISO_TRY(search_promising(options, p, all));
done:
    return status;
}

/* Collective; the chief gets suggestions. */
static iso_status search_meshes(iso_context *ctx, const iso_plan_options *options, const iso_dry_run *p,
                                searched *all)
{
    iso_status status;
    if (options->slots)
        ISO_TRY(list_meshes(ctx, options->slots, all));
    else
        ISO_TRY(add_mesh(ctx, options->train.mesh ? options->train.mesh : "data=*", all));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? search_all(options, p, all) : ISO_OK));
done:
    return status;
}

/* ---- isogrid plan --suggest ---- */

static iso_status print_file(const iso_suggestion *suggestion)
{
    iso_text text = {0};
    json_t *layouts = iso_suggestion_layouts(suggestion);
    iso_layout_file_add(&text, layouts, 0);
    json_decref(layouts);
    bool failed = text.failed;
    if (!failed)
        fputs(iso_text_get(&text), stdout);
    iso_text_free(&text);
    return failed ? iso_no_memory("a layout file") : ISO_OK;
}

/* " (3% of it measured, the rest is estimated)"; "" where all was measured */
static const char *suggest_share(const iso_suggestion *s, char text[64])
{
    double percent = floor(100 * s->measured + 0.005);
    text[0] = 0;
    if (percent < 100)
        snprintf(text, 64, " (%.0f%% of it measured, the rest is estimated)", percent);
    return text;
}

static void print_found(const found *f, bool timed)
{
    char share[64], flops[32], bytes[32], slot[32], host[32], step[32];
    const iso_suggestion *s = f->suggestion;
    const char *mesh = iso_mesh_text(f->mesh);
    fprintf(stderr,
            "mesh %s: a slot computes %s and receives %s in a step; memory of a slot %s, of a host %s%s (%d "
            "plan%s)\n",
            mesh, iso_text_scaled(s->flops, "FLOP", flops, sizeof flops),
            iso_text_scaled(s->bytes, "B", bytes, sizeof bytes),
            iso_text_scaled((double)s->slot_bytes, "B", slot, sizeof slot),
            iso_text_scaled((double)s->host_bytes, "B", host, sizeof host), s->fits ? "" : ", too much",
            s->tried, s->tried == 1 ? "" : "s");
    if (timed)
        fprintf(stderr, "mesh %s: a step takes %s%s\n", mesh, iso_text_seconds(s->cost, step, sizeof step),
                suggest_share(s, share));
}

/* "times of another processor: 'AMD EPYC', this one is 'Intel Xeon'"; the same of the backend and the build */
static void add_foreign(iso_text *text, const iso_time_model *time, const char *before, const char *after)
{
    if (iso_time_model_is_foreign(time))
        iso_text_add(text, "%stimes of another processor: '%s', this one is '%s'%s", before,
                     time->calibration->processor, time->processor, after);
    if (iso_time_model_has_other_backend(time))
        iso_text_add(text, "%stimes of another backend: '%s', this one is '%s'%s", before,
                     time->calibration->backend, time->backend, after);
    if (iso_time_model_has_other_build(time))
        iso_text_add(text, "%stimes of another build of Isogrid: %s%s", before,
                     iso_calibration_measured_by(time->calibration), after);
}

/* Prints the suggestion on the chief. */
static iso_status print_suggestion(const iso_plan_options *options, const iso_dry_run *p, const searched *all)
{
    iso_text foreign = {0};
    const found *best = find_best(all);
    for (int i = 0; i < all->count; i++)
        print_found(&all->list[i], p->time.calibration != NULL);
    add_foreign(&foreign, &p->time, "", "\n");
    fputs(iso_text_get(&foreign), stderr);
    iso_text_free(&foreign);
    if (!best->suggestion->fits)
        return no_fit(options, best);
    if (all->count > 1)
        fprintf(stderr, "the layouts are for --mesh %s\n", iso_mesh_text(best->mesh));
    return print_file(best->suggestion);
}

iso_status iso_plan_suggest(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    searched all = {0};
    iso_status status;
    ISO_TRY(search_meshes(ctx, options, p, &all));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? print_suggestion(options, p, &all) : ISO_OK));
done:
    free_searched(&all);
    return status;
}

/* ---- isogrid train --layout auto ---- */

/* "an estimated 31% less work in a step than data parallel (data=4)" */
static void add_gain(iso_text *text, const searched *all, const found *best, bool timed)
{
    double cost = best->suggestion->cost, plain = all->list[0].suggestion->data_parallel;
    const char *mesh = iso_mesh_text(all->list[0].mesh);
    char share[64], step[32], slower[32];
    if (timed)
        iso_text_add(text, "a step is predicted to take %s%s, with data parallel on %s %s",
                     iso_text_seconds(cost, step, sizeof step), suggest_share(best->suggestion, share), mesh,
                     iso_text_seconds(plain, slower, sizeof slower));
    else
        iso_text_add(text, "a step costs a slot an estimated %.0f%% less than data parallel on %s",
                     100 * (1 - cost / plain), mesh);
}

static void add_reason(iso_text *text, const searched *all, const found *best, const iso_time_model *time)
{
    int plans = 0;
    char share[64], step[32];
    bool timed = time->calibration != NULL;
    for (int i = 0; i < all->count; i++)
        plans += all->list[i].suggestion->tried;
    bool plain = best->suggestion->cost >= all->list[0].suggestion->data_parallel;
    iso_text_add(text, "%s; ", plain ? "data parallel" : "tensor or mixed parallelism");
    if (!plain)
        add_gain(text, all, best, timed);
    else if (timed)
        iso_text_add(text, "a step is predicted to take %s%s, and no other layout to save 10%% of it",
                     iso_text_seconds(best->suggestion->cost, step, sizeof step),
                     suggest_share(best->suggestion, share));
    else
        iso_text_add(text, "no other layout is estimated to save 10%% of a step");
    iso_text_add(text, " (%d plan%s of %d mesh%s", plans, plans > 1 ? "s" : "", all->count,
                 all->count > 1 ? "es" : "");
    add_foreign(text, time, "; ", "");
    iso_text_add(text, ")");
}

static const char chosen[] = "the layouts that --layout auto chose";

/* Writes the choice on the chief. */
static iso_status write_choice(const iso_dry_run *p, const searched *all, iso_text *choice)
{
    iso_text reason = {0};
    const found *best = find_best(all);
    add_reason(&reason, all, best, &p->time);
    json_t *rules = json_pack("{s:s, s:s, s:i, s:o}", "kind", "model parallel", "batch_axis",
                              iso_mesh_axis_name(best->mesh, 0), "zero", 1, "layouts",
                              iso_suggestion_layouts(best->suggestion));
    iso_json_add(choice,
                 json_pack("{s:s, s:s, s:s, s:o}", "mesh", iso_mesh_text(best->mesh), "reason",
                           iso_text_get(&reason), "name", chosen, "distribution", rules),
                 0);
    bool failed = choice->failed || reason.failed;
    iso_text_free(&reason);
    return failed ? iso_no_memory("%s", chosen) : ISO_OK;
}

iso_status iso_layouts_choose(iso_context *ctx, const iso_plan_options *options, json_t **choice)
{
    searched all = {0};
    iso_dry_run p = {.named.quiet = true}; /* the run itself has the model too */
    iso_text written = {0};
    char *text = NULL;
    size_t size = 0;
    iso_status status;
    ISO_TRY(iso_dry_run_prepare_search(ctx, options, &p));
    ISO_TRY(search_meshes(ctx, options, &p, &all));
    status = iso_is_chief(ctx) ? write_choice(&p, &all, &written) : ISO_OK;
    if (status == ISO_OK && iso_is_chief(ctx) && !(text = iso_strdup(iso_text_get(&written))))
        status = iso_no_memory("%s", chosen);
    size = written.length;
    ISO_TRY(iso_share_text(ctx, status, chosen, &text, &size));
    ISO_TRY(iso_agree(ctx, iso_json_parse(chosen, text, size, choice)));
done:
    iso_text_free(&written);
    iso_free(text);
    free_searched(&all);
    iso_dry_run_free(&p);
    return status;
}

/* ---- the banner of isogrid train ---- */

/* Compares the plan with the patterns, on the chief. */
static iso_status compare_with_patterns(const iso_plan_options *options, const iso_dry_run *p, iso_mesh *mesh,
                                        iso_text *hint)
{
    found one = {.mesh = mesh};
    iso_status status = search(options, p, &one, 0);
    if (status != ISO_OK)
        return status;
    double cost = one.suggestion->cost, plain = one.suggestion->data_parallel;
    if (one.suggestion->n_layouts > 0 && cost < plain * (1 - CLEARLY))
        iso_text_add(
            hint, "tensor parallelism is estimated to cost a slot %.0f%% less in a step: use --layout auto",
            100 * (1 - cost / plain));
    iso_suggestion_destroy(one.suggestion);
    return ISO_OK;
}

iso_status iso_layouts_hint(iso_context *ctx, const iso_plan_options *options, const char *mesh,
                            iso_text *hint)
{
    iso_mesh *abstract = NULL;
    iso_dry_run p = {.named.quiet = true};
    iso_status status;
    ISO_TRY(iso_dry_run_prepare_search(ctx, options, &p));
    ISO_TRY(iso_agree(ctx, iso_mesh_abstract(ctx, mesh, &abstract)));
    ISO_TRY(iso_agree(ctx, iso_is_chief(ctx) ? compare_with_patterns(options, &p, abstract, hint) : ISO_OK));
done:
    iso_mesh_destroy(abstract);
    iso_dry_run_free(&p);
    return status;
}
