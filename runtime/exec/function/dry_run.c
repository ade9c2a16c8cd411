/* Plans without functions: the same program, buckets and schedule as a function has, but nothing is allocated
 * to run them. */
#include <inttypes.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/dry_run.h"
#include "runtime/exec/function/dry_run_impl.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/exec/memory/domains.h"
#include "runtime/report/plan_time.h"
#include "runtime/report/report.h"

/* The devices of each host; by default each slot has its own, or all compute in the host's memory. */
static int devices_of_host(const iso_backend *backend, const iso_mesh *mesh, int gpus_per_host)
{
    if (backend->device(0)->host_access)
        return 1;
    return gpus_per_host > 0 ? gpus_per_host : mesh->n_slots;
}

/* *hosts: the memory of the site's tables; also written on errors. */
static iso_status abstract_hosts(const iso_graph *graph, const iso_mesh *mesh, int slots_per_host,
                                 const iso_function_options *options, iso_site *site, int **hosts)
{
    const iso_backend *backend = iso_context_backend(graph->ctx);
    *hosts = iso_new(2 * (size_t)mesh->n_slots * sizeof **hosts);
    if (!*hosts)
        return iso_no_memory("the hosts of %d slots", mesh->n_slots);
    iso_status status = ISO_OK;
    bool one = true, one_domain;
    size_t chunk_bytes;
    int *domains = *hosts + mesh->n_slots;
    ISO_TRY(iso_mesh_abstract_hosts(mesh, slots_per_host, *hosts));
    ISO_TRY(iso_domains_abstract(
        mesh->n_slots, *hosts, devices_of_host(backend, mesh, options->gpus_per_host), domains, &one_domain));
    ISO_TRY(iso_chunk_bytes(graph->ctx, &chunk_bytes));
    for (int s = 0; s < mesh->n_slots; s++)
        one &= (*hosts)[s] == (*hosts)[0];
    *site = (iso_site){.backend = backend,
                       .device = backend->device(0),
                       .host_of_slot = *hosts,
                       .domain_of_slot = domains,
                       .device_exchange = options->gpu_exchange,
                       .chunk_bytes = chunk_bytes,
                       .nccl_adds = iso_collectives_are(graph->ctx, "nccl"),
                       .slot_tables = iso_executable_table_bytes,
                       .one_host = one,
                       .one_domain = one_domain};
done:
    return status;
}

static iso_status dry_run_check(const iso_graph *graph, int64_t rows, int slots_per_host, int gpus_per_host)
{
    const iso_distribution *distribution = graph->distribution;
    if (rows < 1)
        return iso_error(ISO_INVALID, "a plan for %" PRId64 " rows; there must be at least 1", rows);
    if (slots_per_host < 0)
        return iso_error(ISO_INVALID,
                         "a plan with %d slots on a host; there must be at least 1, or 0 for one host",
                         slots_per_host);
    if (gpus_per_host < 0)
        return iso_error(
            ISO_INVALID,
            "a plan with %d GPUs on a host; there must be at least 1, or 0 for one for each slot",
            gpus_per_host);
    if (!distribution || !distribution->mesh)
        return iso_error(ISO_INVALID, "a plan needs a distribution with a mesh");
    return iso_graph_error(graph);
}

void iso_dry_plan_free(iso_dry_plan *dry)
{
    iso_plan_destroy(dry->plan);
    iso_buckets_destroy(&dry->buckets);
    iso_program_destroy(dry->program);
    iso_free(dry->hosts);
    *dry = (iso_dry_plan){0};
}

iso_status iso_dry_plan_make(iso_graph *graph, int64_t rows, int slots_per_host,
                             const iso_function_options *options, bool keeps_all, iso_dry_plan *dry)
{
    iso_status status;
    *dry = (iso_dry_plan){0};
    ISO_TRY(dry_run_check(graph, rows, slots_per_host, options->gpus_per_host));
    ISO_TRY(iso_function_program(graph, graph->distribution, options, keeps_all, &dry->program));
    ISO_TRY(abstract_hosts(graph, dry->program->mesh, slots_per_host, options, &dry->site, &dry->hosts));
    ISO_TRY(iso_function_buckets(dry->program, dry->site.one_domain, &dry->buckets));
    ISO_TRY(iso_plan_create(dry->program, &dry->buckets, &dry->site, rows, &dry->plan));
done:
    return status;
}

/* The activations of a slot, as if nothing was computed again for the backward pass. */
static iso_status find_kept(iso_graph *graph, int64_t rows, int slots_per_host,
                            const iso_function_options *options, int64_t *bytes)
{
    iso_status status;
    iso_dry_plan dry;
    iso_plan_report *report = NULL;
    ISO_TRY(iso_dry_plan_make(graph, rows, slots_per_host, options, true, &dry));
    ISO_TRY(iso_plan_report_create(dry.plan, &report));
    *bytes = report->slot.activations;
done:
    iso_plan_report_destroy(report);
    iso_dry_plan_free(&dry);
    return status;
}

iso_status iso_function_plan(iso_graph *graph, int64_t rows, int slots_per_host,
                             const iso_function_options *options, iso_plan_report **report)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(graph, options, report);
    return iso_function_plan_timed(graph, rows, slots_per_host, options, NULL, report);
}

iso_status iso_function_plan_timed(iso_graph *graph, int64_t rows, int slots_per_host,
                                   const iso_function_options *options, const iso_time_model *model,
                                   iso_plan_report **out)
{
    ISO_NEED_AS("graph, options, report", graph, options, out);
    iso_status status;
    iso_dry_plan dry;
    iso_plan_report *report = NULL;
    ISO_TRY(iso_dry_plan_make(graph, rows, slots_per_host, options, false, &dry));
    ISO_TRY(iso_plan_report_create(dry.plan, &report));
    if (report->flops_again > 0)
        ISO_TRY(find_kept(graph, rows, slots_per_host, options, &report->activations_kept));
    if (model)
        ISO_TRY(iso_plan_time_create(dry.plan, report, model, &report->time));
    *out = report;
    report = NULL;
done:
    iso_plan_report_destroy(report);
    iso_dry_plan_free(&dry);
    return status;
}
