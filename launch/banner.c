/* The first lines of a run: which slots are on which rank, and what a step needs. */
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/train_impl.h"
#include "runtime/backend/backend.h"
#include "runtime/base/build.h"
#include "runtime/base/host.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/spmd/distribution_json.h"

/* "0-3 on rank 0, 4-7 on rank 1"; long lists are truncated. */
static void banner_add_slots(iso_text *text, iso_context *ctx, const iso_mesh *mesh)
{
    enum { SHOWN = 8 };
    int slots = iso_mesh_slots(mesh), runs = 0;
    for (int begin = 0, end; begin < slots; begin = end) {
        int rank = iso_mesh_rank_of_slot(mesh, begin);
        for (end = begin + 1; end < slots && iso_mesh_rank_of_slot(mesh, end) == rank; end++)
            ;
        if (++runs > SHOWN)
            continue;
        iso_text_add(text, "%s%d", runs > 1 ? ", " : "", begin);
        if (end - begin > 1)
            iso_text_add(text, "-%d", end - 1);
        iso_text_add(text, " on rank %d", rank);
        if (iso_hosts(ctx) > 1)
            iso_text_add(text, " (host %d)", iso_host_of_rank(ctx, rank));
    }
    if (runs > SHOWN)
        iso_text_add(text, ", ... (%d ranks)", iso_ranks(ctx));
}

typedef struct host_name {
    char text[ISO_HOST_NAME];
} host_name;

static int first_rank(iso_context *ctx, int host)
{
    int rank = 0;
    while (rank + 1 < iso_ranks(ctx) && iso_host_of_rank(ctx, rank) != host)
        rank++;
    return rank;
}

static bool on_gpus(iso_context *ctx)
{
    return !iso_context_backend(ctx)->device(0)->host_access;
}

/* Describes the collectives. How the GPUs of a host exchange is known only when there is a plan: print_facts. */
static const char *collectives(iso_context *ctx, const iso_mesh *mesh)
{
    bool gpus = on_gpus(ctx);
    if (iso_mesh_slots(mesh) == 1)
        return "none needed";
    const char *collectives = iso_option(ctx, "collectives", "auto");
    if (!strcmp(collectives, "nccl"))
        return "NCCL's reductions between GPUs: the bits depend on the GPUs and the hosts";
    if (iso_hosts(ctx) == 1)
        return gpus ? "in a fixed order" : "shared memory";
    if (!strcmp(collectives, "mpi"))
        return gpus ? "in a fixed order on a host, MPI's reductions between hosts: the bits depend on the "
                      "hosts"
                    : "shared memory on a host, MPI's reductions between hosts: the bits depend on the hosts";
    return gpus ? "in a fixed order, MPI between hosts" : "shared memory on a host, MPI between hosts";
}

/* names [ranks]: of the hosts. */
static void warn_of_unequal_hosts(iso_context *ctx, const iso_mesh *mesh, const host_name *names)
{
    enum { SHOWN = 8 };
    int hosts = iso_hosts(ctx);
    int *slots = iso_new((size_t)hosts * sizeof *slots);
    bool unequal = false;
    iso_text text = {0};
    for (int s = 0; slots && s < iso_mesh_slots(mesh); s++)
        slots[iso_host_of_rank(ctx, iso_mesh_rank_of_slot(mesh, s))]++;
    for (int h = 0; slots && h < hosts; h++) {
        unequal = unequal || slots[h] != slots[0];
        if (h < SHOWN)
            iso_text_add(&text, "%s%s (host %d): %d", h ? ", " : "", names[first_rank(ctx, h)].text, h,
                         slots[h]);
    }
    if (unequal)
        iso_warn(
            "the hosts have different numbers of slots (%s%s). The results do not change, but each step "
            "waits for the host with the most slots; a mesh whose slots the hosts share equally is faster",
            iso_text_get(&text), hosts > SHOWN ? ", ..." : "");
    iso_text_free(&text);
    iso_free(slots);
}

/* Hosts with unequal numbers of slots give the same numbers, but not the speed that their cores promise. */
static iso_status compare_hosts(iso_context *ctx, const iso_mesh *mesh)
{
    if (iso_hosts(ctx) == 1)
        return ISO_OK;
    host_name mine, *names = iso_new((size_t)iso_ranks(ctx) * sizeof *names);
    iso_host_name(mine.text);
    iso_status status =
        iso_agree(ctx, names ? ISO_OK : iso_no_memory("the names of %d hosts", iso_hosts(ctx)));
    if (status == ISO_OK)
        status = iso_gather_all(ctx, &mine, sizeof mine, names);
    if (status == ISO_OK && iso_is_chief(ctx))
        warn_of_unequal_hosts(ctx, mesh, names);
    iso_free(names);
    return status;
}

/* What a rank says of its host. */
typedef struct host_text {
    host_name host;
    char text[600];
} host_text;

/* Lists the hosts whose text is not that of rank 0. of_rank [ranks]. */
static void list_other_hosts(iso_context *ctx, const host_text *of_rank, iso_text *list)
{
    enum { SHOWN = 8 };
    int others = 0;
    for (int h = 0; h < iso_hosts(ctx); h++) {
        const host_text *host = &of_rank[first_rank(ctx, h)];
        if (strcmp(host->text, of_rank[0].text) == 0)
            continue;
        if (others++ < SHOWN)
            iso_text_add(list, "%s%s (host %d): %s", others > 1 ? "; " : "", host->host.text, h, host->text);
    }
    if (others > SHOWN)
        iso_text_add(list, "; and %d more", others - SHOWN);
}

/* The chief prints, in one line, what other hosts have in place of its own text; nothing if all have the same.
 * Collective. */
static iso_status print_other_hosts(iso_context *ctx, const char *what, const char *text)
{
    if (iso_hosts(ctx) == 1)
        return ISO_OK;
    iso_text list = {0};
    host_text mine = {0}, *of_rank = iso_new((size_t)iso_ranks(ctx) * sizeof *of_rank);
    iso_host_name(mine.host.text);
    snprintf(mine.text, sizeof mine.text, "%s", text);
    iso_status status = iso_agree(ctx, of_rank ? ISO_OK : iso_no_memory("what %d hosts say", iso_hosts(ctx)));
    if (status == ISO_OK)
        status = iso_gather_all(ctx, &mine, sizeof mine, of_rank);
    if (status == ISO_OK && iso_is_chief(ctx))
        list_other_hosts(ctx, of_rank, &list);
    if (*iso_text_get(&list))
        printf("%s: %s\n", what, iso_text_get(&list));
    iso_text_free(&list);
    iso_free(of_rank);
    return status;
}

/* Prints the choice of --layout auto and its reason; long lists of layouts are left out. */
static void print_choice(const json_t *choice)
{
    enum { SHOWN = 8 };
    const json_t *layouts = json_object_get(json_object_get(choice, "distribution"), "layouts");
    size_t count = json_object_size(layouts);
    iso_text text = {0};
    if (!choice)
        return;
    printf("layouts: %s\n", json_string_value(json_object_get(choice, "reason")));
    if (count && count <= SHOWN)
        iso_layout_file_add(&text, layouts, 2);
    else if (count)
        iso_text_add(&text, "  %zu of them: `isogrid inspect` prints those of a checkpoint\n", count);
    fputs(iso_text_get(&text), stdout);
    iso_text_free(&text);
}

static bool is_batch_axis_by_name(const char *name)
{
    return strcmp(name, "data") == 0 || strcmp(name, "batch") == 0;
}

/* Prints the axes over which rows are split, if one of them has another name than "data" or "batch": all axes without
 * layouts, the first one with layouts. The layouts of --layout auto are printed. */
static void print_batch_axes(const iso_distribution_setup *setup)
{
    int axes = setup->map ? 1 : iso_mesh_axes(setup->mesh);
    bool other = false;
    iso_text text = {0};
    for (int a = 0; !setup->choice && a < axes; a++) {
        const char *name = iso_mesh_axis_name(setup->mesh, a);
        if (iso_mesh_axis_size(setup->mesh, a) == 1)
            continue;
        iso_text_add(&text, "%s%s", *iso_text_get(&text) ? " and " : "", name);
        other = other || !is_batch_axis_by_name(name);
    }
    if (other)
        printf("batch: split over %s, %s\n", iso_text_get(&text),
               setup->map ? "the first axis of the mesh, unless a layout of the input says otherwise"
                          : "since there are no layouts");
    iso_text_free(&text);
}

static void print_banner(iso_context *ctx, const iso_distribution_setup *setup)
{
    iso_text slots = {0};
    banner_add_slots(&slots, ctx, setup->mesh);
    printf("isogrid %s (build %s)\n", iso_version(), iso_build_id());
    printf("mesh %s: slots %s; threads of a rank: %d\n", iso_mesh_text(setup->mesh), iso_text_get(&slots),
           iso_threads(ctx));
    print_batch_axes(setup);
    printf("backend %s; collectives: %s\n", iso_context_backend(ctx)->description(),
           collectives(ctx, setup->mesh));
    if (iso_option(ctx, "cuda-aware", NULL))
        printf(iso_hosts(ctx) == 1
                   ? "messages between hosts: none on one host (--cuda-aware changes nothing)\n"
                   : "messages between hosts: MPI gets addresses of the GPUs' memory (--cuda-aware)\n");
    iso_text_free(&slots);
    print_choice(setup->choice);
    fflush(stdout); /* as below: what follows may take long, or end the program */
}

iso_status iso_banner_print(iso_context *ctx, const iso_train_options *options,
                            const iso_distribution_setup *setup)
{
    if (options->verbose == 0)
        return ISO_OK;
    if (iso_is_chief(ctx))
        print_banner(ctx, setup);
    iso_status status = on_gpus(ctx)
                            ? print_other_hosts(ctx, "other hosts", iso_context_backend(ctx)->description())
                            : ISO_OK;
    return status == ISO_OK ? compare_hosts(ctx, setup->mesh) : status;
}

static void print_rows(const iso_dataset *data)
{
    int64_t rows = iso_dataset_rows(data);
    printf("%lld row%s", (long long)rows, rows == 1 ? "" : "s");
}

void iso_banner_print_data(iso_context *ctx, const iso_train_options *options, const iso_sources *sources)
{
    char shape[128];
    if (!iso_is_chief(ctx) || options->verbose == 0)
        return;
    printf("data %s: ", options->data);
    print_rows(sources->training);
    for (int i = 0; i < iso_dataset_components(sources->training); i++)
        printf("%s %s %s", i ? "," : " of", iso_dtype_name(iso_dataset_dtype(sources->training, i)),
               iso_shape_text(iso_dataset_shape(sources->training, i), shape, sizeof shape));
    if (sources->validation) {
        printf("; validation: ");
        print_rows(sources->validation);
    }
    if (sources->tokenizer)
        printf("; tokens by the tokenizer of %s", sources->tokenizer);
    printf("\n");
    fflush(stdout);
}

/* On the chief. */
static void print_own_facts(iso_context *ctx, const iso_plan_facts *facts, int64_t rows)
{
    char a[32], b[32], c[32], d[32];
    printf("parameters %lld; a slot: arena %s, shared window %s, optimizer state %s; %s: %s\n",
           (long long)facts->parameters, iso_text_scaled((double)facts->arena_bytes, "B", a, sizeof a),
           iso_text_scaled((double)facts->shared_bytes, "B", b, sizeof b),
           iso_text_scaled((double)facts->state_bytes, "B", c, sizeof c),
           on_gpus(ctx) ? "windows of this host's GPUs" : "this host's window",
           iso_text_scaled((double)facts->host_bytes, "B", d, sizeof d));
    printf("a step of %lld row%s: %s, %s exchanged; of a slot: %d instructions, %d exchange%s\n",
           (long long)rows, rows == 1 ? "" : "s", iso_text_scaled(facts->flops, "FLOP", a, sizeof a),
           iso_text_scaled(facts->exchanged_bytes, "B", b, sizeof b), facts->instructions, facts->exchanges,
           facts->exchanges == 1 ? "" : "s");
    if (rows < facts->batch_parts)
        iso_warn("a batch of %lld row%s is divided into %d parts, %lld of which %s: use a larger "
                 "--batch-size or a smaller --mesh",
                 (long long)rows, rows == 1 ? "" : "s", facts->batch_parts,
                 (long long)(facts->batch_parts - rows),
                 facts->batch_parts - rows == 1 ? "is empty, and its slot only waits"
                                                : "are empty, and their slots only wait");
    if (facts->accumulation_bytes < facts->exchanged_bytes)
        printf("a step that only accumulates gradients: %s exchanged\n",
               iso_text_scaled(facts->accumulation_bytes, "B", a, sizeof a));
    if (on_gpus(ctx) && facts->slots > facts->domains)
        printf("%d slots share %d GPU%s: slots of one GPU wait for each other\n", facts->slots,
               facts->domains, facts->domains == 1 ? "" : "s");
    if (facts->gpu_exchange)
        printf("GPUs of this host exchange by %s\n", facts->gpu_exchange);
    fflush(stdout);
}

static iso_status print_facts(iso_context *ctx, iso_model *model, int64_t rows)
{
    iso_plan_facts facts;
    iso_status status = iso_function_facts(iso_model_training_function(model), rows, &facts);
    if (status != ISO_OK)
        return status;
    if (iso_is_chief(ctx))
        print_own_facts(ctx, &facts, rows);
    if (!on_gpus(ctx))
        return ISO_OK;
    return print_other_hosts(ctx, "exchange between the GPUs of other hosts",
                             facts.gpu_exchange ? facts.gpu_exchange : "none, on one GPU");
}

iso_status iso_banner_print_plan(iso_context *ctx, iso_model *model, int64_t rows, bool whole)
{
    char *text;
    if (!whole)
        return print_facts(ctx, model, rows);
    iso_status status = iso_function_print(iso_model_training_function(model), rows, &text);
    if (status != ISO_OK)
        return status;
    if (iso_is_chief(ctx))
        fputs(text, stdout);
    iso_free(text);
    return ISO_OK;
}
