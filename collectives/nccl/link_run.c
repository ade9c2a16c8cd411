/* The work of this rank's devices in a run of an exchange. */
#include "collectives/coll_impl.h"
#include "runtime/base/device.h"
#include "runtime/base/memory.h"

iso_status iso_link_run_create(const iso_links *links, iso_link_run *run)
{
    iso_status status = ISO_OK;
    run->arrived = iso_new(((size_t)links->n_own + 1) * sizeof(iso_device_event *));
    if (!run->arrived)
        return iso_no_memory("the events of %d devices", links->n_own);
    for (int i = 0; i < links->n_own && status == ISO_OK; i++)
        status = links->own[i].stream->device->create_event(links->own[i].stream->device, &run->arrived[i]);
    return status;
}

void iso_link_run_free(const iso_links *links, iso_link_run *run)
{
    for (int i = 0; run->arrived && i < links->n_own; i++)
        if (run->arrived[i])
            run->arrived[i]->device->destroy_event(run->arrived[i]);
    iso_free(run->arrived);
    run->arrived = NULL;
}

iso_status iso_link_run_pack(const iso_fabric *fabric, const iso_links *links, const iso_pack_list *list,
                             iso_link_run *run)
{
    run->under_way = false;
    if (iso_links_check(links) != ISO_OK)
        return ISO_FAILED;
    for (int i = 0; i < links->n_own; i++)
        iso_order_await_slots(fabric, links->own[i].stream, links->first_slot[links->own[i].domain]);
    for (int i = 0; i < list->count; i++) {
        const iso_pack *pack = &list->packs[i];
        const iso_link_member *own = iso_links_own(links, fabric->domain_of_slot[pack->reader]);
        fabric->gather_kernels->run(&pack->gather, own->stream);
    }
    return ISO_OK;
}

iso_status iso_link_run_record(const iso_fabric *fabric, const iso_links *links, iso_link_run *run)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < links->n_own; i++) {
        iso_stream *stream = links->own[i].stream;
        stream->device->record(run->arrived[i], stream);
        iso_order_record_arrived(fabric, links->first_slot[links->own[i].domain], stream);
        iso_status queued = stream->device->check(stream);
        status = status == ISO_OK ? queued : status;
    }
    run->under_way = true;
    return status;
}

void iso_link_run_await(const iso_fabric *fabric, const iso_links *links, const iso_link_run *run, int slot,
                        iso_stream *stream)
{
    int domain = fabric->domain_of_slot[slot];
    const iso_link_member *own = iso_links_own(links, domain);
    if (own)
        stream->device->await(stream, run->arrived[own - links->own]);
    else
        iso_order_await_arrived(fabric, links->first_slot[domain], stream);
}

iso_status iso_link_run_test(iso_fabric *fabric, const iso_links *links, iso_link_run *run,
                             iso_status (*check)(const void *arg, int own), const void *arg, int *done)
{
    iso_status status = ISO_OK;
    *done = 1;
    if (!run->under_way || links->failed)
        return ISO_OK;
    for (int i = 0; i < links->n_own && status == ISO_OK; i++) {
        bool passed = run->arrived[i]->device->passed(run->arrived[i]);
        *done &= passed;
        status = passed ? run->arrived[i]->device->wait_event(run->arrived[i]) : check(arg, i);
    }
    run->under_way = status == ISO_OK && !*done;
    *done |= status != ISO_OK;
    return status == ISO_OK ? ISO_OK : iso_links_fail(fabric, status);
}
