/* Plans without functions: the same program, buckets and schedule as a function has, but nothing is allocated
 * to run them. */
#include <inttypes.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/exec/domains.h"
#include "runtime/exec/function_impl.h"
#include "runtime/exec/inspect.h"
#include "runtime/report/report.h"

/* *hosts: the memory of the site's tables; also written on errors. */
static iso_status abstract_hosts(const iso_graph *graph, const iso_mesh *mesh, int slots_per_host,
                                 iso_site *site, int **hosts)
{
    *hosts = iso_new(2 * (size_t)mesh->n_slots * sizeof **hosts);
    if (!*hosts)
        return iso_error(ISO_NO_MEMORY, "no memory for the hosts of %d slots", mesh->n_slots);
    iso_status status = ISO_OK;
    bool one = true, one_domain;
    int *domains = *hosts + mesh->n_slots;
    ISO_TRY(iso_mesh_abstract_hosts(mesh, slots_per_host, *hosts));
    ISO_TRY(iso_domains_abstract(mesh->n_slots, *hosts, domains, &one_domain));
    for (int s = 0; s < mesh->n_slots; s++)
        one &= (*hosts)[s] == (*hosts)[0];
    *site = (iso_site){.backend = iso_context_backend(graph->ctx),
                       .host_of_slot = *hosts,
                       .domain_of_slot = domains,
                       .slot_tables = iso_executable_table_bytes,
                       .one_host = one,
                       .one_domain = one_domain};
done:
    return status;
}

static iso_status dry_run_check(const iso_graph *graph, int64_t rows, int slots_per_host)
{
    const iso_distribution *distribution = graph->distribution;
    if (rows < 1)
        return iso_error(ISO_INVALID, "a plan for %" PRId64 " rows", rows);
    if (slots_per_host < 0)
        return iso_error(ISO_INVALID, "a plan with %d slots on a host", slots_per_host);
    if (!distribution || !distribution->mesh)
        return iso_error(ISO_INVALID, "a plan needs a distribution with a mesh");
    return iso_graph_error(graph);
}

/* keeps_all: as if nothing was computed again for the backward pass. */
static iso_status plan_hypothetical(iso_graph *graph, int64_t rows, int slots_per_host,
                                    const iso_function_options *options, bool keeps_all,
                                    iso_plan_report **report)
{
    iso_status status;
    iso_program *program = NULL;
    iso_bucket_list buckets = {0};
    iso_plan *plan = NULL;
    iso_site site;
    int *hosts = NULL;
    ISO_TRY(iso_function_program(graph, graph->distribution, options, keeps_all, &program));
    ISO_TRY(abstract_hosts(graph, program->mesh, slots_per_host, &site, &hosts));
    ISO_TRY(iso_function_buckets(program, site.one_domain, &buckets));
    ISO_TRY(iso_plan_create(program, &buckets, &site, rows, &plan));
    ISO_TRY(iso_plan_report_create(plan, report));
done:
    iso_plan_destroy(plan);
    iso_buckets_destroy(&buckets);
    iso_program_destroy(program);
    iso_free(hosts);
    return status;
}

iso_status iso_function_plan(iso_graph *graph, int64_t rows, int slots_per_host,
                             const iso_function_options *options, iso_plan_report **report)
{
    ISO_NEED(graph, options, report);
    iso_status status;
    iso_plan_report *made = NULL, *kept = NULL;
    ISO_TRY(dry_run_check(graph, rows, slots_per_host));
    ISO_TRY(plan_hypothetical(graph, rows, slots_per_host, options, false, &made));
    if (made->flops_again > 0) {
        ISO_TRY(plan_hypothetical(graph, rows, slots_per_host, options, true, &kept));
        made->activations_kept = kept->slot.activations;
    }
    *report = made;
    made = NULL;
done:
    iso_plan_report_destroy(kept);
    iso_plan_report_destroy(made);
    return status;
}
