/* A plan's report: the slots of each host, and the copies of variables on each host. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"

static iso_status list_slots(iso_reporter *r)
{
    const int *host = r->plan->site->host_of_slot;
    int slots = r->mesh->n_slots;
    for (int s = 0; s < slots; s++)
        r->n_hosts = host[s] >= r->n_hosts ? host[s] + 1 : r->n_hosts;
    r->host_begin = iso_new(((size_t)r->n_hosts + 2) * sizeof *r->host_begin);
    r->by_host = iso_new((size_t)slots * sizeof *r->by_host);
    if (!r->host_begin || !r->by_host)
        return iso_error(ISO_NO_MEMORY, "no memory for the hosts of %d slots", slots);
    int *next = r->host_begin + 1; /* filling makes it host_begin */
    for (int s = 0; s < slots; s++)
        next[host[s] + 1]++;
    for (int h = 1; h <= r->n_hosts; h++)
        next[h] += next[h - 1];
    for (int s = 0; s < slots; s++)
        r->by_host[next[host[s]]++] = s;
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

/* hosts_of: [parts] zeros, memory of the caller; last: as many. */
static void report_hosts_find_holders(iso_reporter *r, uint32_t axes, int parts, int *hosts_of, int *last)
{
    iso_copies *copies = &r->copies[axes];
    for (int h = 0; h < r->n_hosts; h++) {
        copies->first[h] = copies->n_holders;
        for (int i = r->host_begin[h]; i < r->host_begin[h + 1]; i++) {
            int part = report_hosts_part_of(r->mesh, axes, r->by_host[i]);
            if (last[part] == h + 1)
                continue;
            last[part] = h + 1;
            hosts_of[part]++;
            copies->holders[copies->n_holders++] = r->by_host[i];
        }
    }
    copies->first[r->n_hosts] = copies->n_holders;
    copies->even = hosts_of[0];
    for (int p = 1; p < parts; p++)
        if (hosts_of[p] != hosts_of[0])
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
    copies->first = iso_new(((size_t)r->n_hosts + 1) * sizeof *copies->first);
    bool all = room && copies->holders && copies->first;
    if (all)
        report_hosts_find_holders(r, axes, parts, room, room + parts);
    iso_free(room);
    return all ? ISO_OK : iso_error(ISO_NO_MEMORY, "no memory for the copies on %d hosts", r->n_hosts);
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
    for (int h = 0; h < r->n_hosts; h++) {
        int slots = r->host_begin[h + 1] - r->host_begin[h];
        r->report->n_hosts += slots > 0;
        r->report->n_host_slots = slots > r->report->n_host_slots ? slots : r->report->n_host_slots;
    }
done:
    return status;
}

void iso_report_free_hosts(iso_reporter *r)
{
    for (int i = 0; i < 1 << ISO_MAX_AXES; i++) {
        iso_free(r->copies[i].holders);
        iso_free(r->copies[i].first);
    }
    iso_free(r->host_begin);
    iso_free(r->by_host);
}
