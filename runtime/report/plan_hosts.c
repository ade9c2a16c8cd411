/* A plan's report: the slots of each host and memory domain, and the copies of variables in each domain. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"

static int above(const int *number_of_slot, int slots)
{
    int most = 0;
    for (int s = 0; s < slots; s++)
        most = number_of_slot[s] >= most ? number_of_slot[s] + 1 : most;
    return most;
}

static iso_status list_slots(iso_reporter *r)
{
    const int *domain = r->plan->site->domain_of_slot;
    int slots = r->mesh->n_slots;
    r->n_domains = above(domain, slots);
    r->domain_begin = iso_new(((size_t)r->n_domains + 2) * sizeof *r->domain_begin);
    r->by_domain = iso_new((size_t)slots * sizeof *r->by_domain);
    r->domain_host = iso_new((size_t)r->n_domains * sizeof *r->domain_host);
    r->host_slots = iso_new((size_t)r->n_domains * sizeof *r->host_slots);
    r->scratch = iso_new((size_t)slots * sizeof *r->scratch);
    if (!r->domain_begin || !r->by_domain || !r->domain_host || !r->host_slots || !r->scratch)
        return iso_no_memory("the memory domains of %d slots", slots);
    int *next = r->domain_begin + 1; /* filling makes it domain_begin */
    for (int s = 0; s < slots; s++) {
        next[domain[s] + 1]++;
        r->scratch[s] = -1;
        r->domain_host[domain[s]] = r->plan->site->host_of_slot[s];
    }
    for (int d = 1; d <= r->n_domains; d++)
        next[d] += next[d - 1];
    for (int s = 0; s < slots; s++)
        r->by_domain[next[domain[s]]++] = s;
    return ISO_OK;
}

static iso_status count_hosts(iso_reporter *r)
{
    const int *host = r->plan->site->host_of_slot;
    iso_plan_report *report = r->report;
    int slots = r->mesh->n_slots, hosts = above(host, slots);
    int *slots_of = iso_new((size_t)hosts * sizeof *slots_of);
    if (!slots_of)
        return iso_no_memory("the hosts of %d slots", slots);
    for (int s = 0; s < slots; s++)
        slots_of[host[s]]++;
    for (int h = 0; h < hosts; h++) {
        report->n_hosts += slots_of[h] > 0;
        report->n_host_slots = slots_of[h] > report->n_host_slots ? slots_of[h] : report->n_host_slots;
    }
    for (int d = 0; d < r->n_domains; d++)
        r->host_slots[d] = slots_of[r->domain_host[d]];
    report->n_domains = r->n_domains;
    iso_free(slots_of);
    return ISO_OK;
}

static int report_hosts_part_of(const iso_mesh *mesh, uint32_t axes, int slot)
{
    int part = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if (axes & 1u << a)
            part = part * mesh->size[a] + iso_mesh_coordinate(mesh, slot, a);
    return part;
}

/* domains_of: [parts] zeros, memory of the caller; last: as many. */
static void report_hosts_find_holders(iso_reporter *r, uint32_t axes, int parts, int *domains_of, int *last)
{
    iso_copies *copies = &r->copies[axes];
    for (int d = 0; d < r->n_domains; d++) {
        copies->first[d] = copies->n_holders;
        for (int i = r->domain_begin[d]; i < r->domain_begin[d + 1]; i++) {
            int part = report_hosts_part_of(r->mesh, axes, r->by_domain[i]);
            if (last[part] == d + 1)
                continue;
            last[part] = d + 1;
            domains_of[part]++;
            copies->holders[copies->n_holders++] = r->by_domain[i];
        }
    }
    copies->first[r->n_domains] = copies->n_holders;
    copies->even = domains_of[0];
    for (int p = 1; p < parts; p++)
        if (domains_of[p] != domains_of[0])
            copies->even = 0;
}

static iso_status find_copies(iso_reporter *r, uint32_t axes)
{
    iso_copies *copies = &r->copies[axes];
    int parts = 1;
    for (int a = 0; a < r->mesh->n_axes; a++)
        parts *= axes & 1u << a ? r->mesh->size[a] : 1;
    int *room = iso_new(2 * (size_t)parts * sizeof *room);
    copies->holders = iso_new((size_t)r->mesh->n_slots * sizeof *copies->holders);
    copies->first = iso_new(((size_t)r->n_domains + 1) * sizeof *copies->first);
    bool all = room && copies->holders && copies->first;
    if (all)
        report_hosts_find_holders(r, axes, parts, room, room + parts);
    iso_free(room);
    return all ? ISO_OK : iso_no_memory("the copies in %d memory domains", r->n_domains);
}

iso_status iso_report_hosts(iso_reporter *r)
{
    iso_status status = ISO_OK;
    ISO_TRY(list_slots(r));
    for (int i = 0; i < r->program->n_variables; i++) {
        uint32_t axes = iso_layout_sharded_axes(&r->program->variable_layout[i]);
        if (!r->copies[axes].holders)
            ISO_TRY(find_copies(r, axes));
    }
    ISO_TRY(count_hosts(r));
done:
    return status;
}

void iso_report_free_hosts(iso_reporter *r)
{
    for (int i = 0; i < 1 << ISO_MAX_AXES; i++) {
        iso_free(r->copies[i].holders);
        iso_free(r->copies[i].first);
    }
    iso_free(r->domain_begin);
    iso_free(r->by_domain);
    iso_free(r->domain_host);
    iso_free(r->host_slots);
    iso_free(r->scratch);
}
