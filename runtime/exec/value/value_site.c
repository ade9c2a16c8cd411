/* The data that the values of one mesh share: the fabric between its slots, and the ranks that host them. */
#include "collectives/control/control.h"
#include "collectives/control/watchdog.h"
#include "runtime/backend/backend.h"
#include "runtime/base/memory.h"
#include "runtime/exec/memory/domains.h"
#include "runtime/exec/value/value_impl.h"
#include "runtime/session/session.h"

static void value_site_destroy(iso_value_site *site)
{
    if (!site)
        return;
    iso_fabric_destroy(site->fabric);
    iso_free(site->slot);
    iso_free(site->first_of_rank);
    iso_free(site);
}

static iso_status value_site_list_slots(iso_value_site *site)
{
    const iso_mesh *mesh = site->mesh;
    int idle = -1;
    bool *hosts = iso_new((size_t)iso_ranks(site->ctx) * sizeof *hosts);
    site->slot = iso_new((size_t)mesh->n_slots * sizeof *site->slot);
    site->first_of_rank = iso_new((size_t)mesh->n_slots * sizeof *site->first_of_rank);
    iso_status status = ISO_OK;
    if (!hosts || !site->slot || !site->first_of_rank)
        ISO_TRY(iso_no_memory("values on %d slots", mesh->n_slots));
    for (int s = 0; s < mesh->n_slots; s++) {
        int rank = mesh->rank_of_slot[s];
        site->first_of_rank[s] = !hosts[rank];
        hosts[rank] = true;
        if (rank == iso_rank(site->ctx))
            site->slot[site->n_locals++] = s;
    }
    ISO_TRY(iso_mesh_find_idle(mesh, iso_ranks(site->ctx), &idle));
    site->idle_ranks = idle >= 0;
done:
    iso_free(hosts);
    return status;
}

/* One thread a rank: values are moved while a program is set up, not in steps. */
static iso_status value_site_make_fabric(iso_value_site *site)
{
    int ranks = iso_ranks(site->ctx);
    int *hosts = iso_new((size_t)ranks * sizeof *hosts);
    iso_domains domains = {0};
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(site->ctx, hosts ? ISO_OK : iso_no_memory("%d ranks", ranks)));
    ISO_TRY(iso_domains_create(site->ctx, site->mesh, iso_device_cpu(), NULL, &domains));
    for (int r = 0; r < ranks; r++)
        hosts[r] = iso_host_of_rank(site->ctx, r);
    iso_topology topology = {.n_slots = site->mesh->n_slots,
                             .n_ranks = ranks,
                             .rank = iso_rank(site->ctx),
                             .rank_of_slot = site->mesh->rank_of_slot,
                             .host_of_rank = hosts,
                             .n_threads = 1,
                             .watchdog = iso_context_watchdog(site->ctx),
                             .domain_of_slot = domains.of_slot};
    status = iso_fabric_create(&topology, iso_communicator(site->ctx), iso_backend_cpu()->sum,
                               iso_backend_cpu()->maximum, &site->fabric);
done:
    iso_domains_destroy(&domains);
    iso_free(hosts);
    return status;
}

iso_status iso_value_site_get(iso_mesh *mesh, iso_value_site **out)
{
    iso_status status = ISO_OK;
    if (mesh->site) {
        *out = mesh->site;
        return ISO_OK;
    }
    iso_value_site *site = iso_new(sizeof *site);
    ISO_TRY(iso_agree(mesh->ctx, site ? ISO_OK : iso_no_memory("values")));
    site->ctx = mesh->ctx;
    site->mesh = mesh;
    ISO_TRY(iso_agree(mesh->ctx, value_site_list_slots(site)));
    ISO_TRY(value_site_make_fabric(site));
    mesh->site = *out = site;
    mesh->destroy_site = value_site_destroy;
    return ISO_OK;
done:
    value_site_destroy(site);
    return status;
}
