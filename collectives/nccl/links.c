/* The communicator of the devices of a host. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

/* Seconds, at most: until all have joined, and until the watchdog has reported. */
static const double joined_after = 300, reported_after = 60;

/* ---- whether links are used ---- */

static void number_members(const iso_fabric *fabric, iso_links *links, int *count)
{
    *count = 0;
    for (int domain = 0; domain < fabric->n_domains; domain++)
        links->member[domain] = links->first_slot[domain] = -1;
    for (int slot = fabric->topology.n_slots - 1; slot >= 0; slot--)
        if (iso_fabric_host_of_slot(fabric, slot) == fabric->host_number)
            links->first_slot[fabric->domain_of_slot[slot]] = slot;
    for (int domain = 0; domain < fabric->n_domains; domain++)
        if (links->first_slot[domain] >= 0)
            links->member[domain] = (*count)++;
}

/* Whether no domain of the host reaches another. */
static bool are_separate(const iso_fabric *fabric, const iso_links *links)
{
    for (int domain = 0; domain < fabric->n_domains; domain++)
        for (int other = 0; other < domain; other++)
            if (links->member[domain] >= 0 && links->member[other] >= 0 &&
                fabric->reach_of_slot[links->first_slot[domain]] ==
                    fabric->reach_of_slot[links->first_slot[other]])
                return false;
    return true;
}

static iso_status list_own(const iso_fabric *fabric, iso_links *links)
{
    iso_status status = ISO_OK;
    for (int domain = 0; domain < fabric->n_domains && status == ISO_OK; domain++)
        if (links->member[domain] >= 0 && fabric->local[links->first_slot[domain]] >= 0)
            status = iso_list_add(links->own, links->n_own, (iso_link_member){.domain = domain},
                                  "the devices of this rank");
    return status;
}

/* Whether each domain is a device of its own: the library takes a device once. Collective over the host. */
static iso_status find_distinct(const iso_fabric *fabric, const iso_links *links, int count, bool *distinct)
{
    enum { WORDS = ISO_DEVICE_IDENTITY / sizeof(uint64_t) };
    uint64_t *all = iso_new((size_t)count * WORDS * sizeof *all);
    int good = all != NULL;
    for (int i = 0; i < links->n_own && good; i++) {
        const iso_device *device =
            fabric->topology.stream_of_slot[links->first_slot[links->own[i].domain]]->device;
        uint64_t *own = all + (size_t)links->member[links->own[i].domain] * WORDS;
        good = device->identify(device, (unsigned char *)own) == ISO_OK;
    }
    iso_status status = iso_comm_reduce(fabric->host, ISO_COMM_MIN, ISO_COMM_INT, &good, 1);
    *distinct = good;
    if (status == ISO_OK && good)
        status = iso_comm_reduce(fabric->host, ISO_COMM_OR, ISO_COMM_U64, all, count * WORDS);
    for (int i = 0; good && i < count; i++)
        for (int other = 0; other < i; other++)
            *distinct &= memcmp(all + i * WORDS, all + other * WORDS, ISO_DEVICE_IDENTITY) != 0;
    iso_free(all);
    return status;
}

/* ---- joining ---- */

iso_status iso_links_await(const iso_fabric *fabric, iso_device_comm *comm)
{
    const iso_device_comms *comms = fabric->topology.device->comms;
    iso_patience patience = {0};
    double begun = iso_clock();
    for (;;) {
        bool done = false;
        iso_status status = comms->test(comm, &done);
        if (status != ISO_OK || done)
            return status;
        status = iso_watch_check(fabric->channel.watch);
        if (status != ISO_OK)
            return status;
        if (iso_clock() - begun > joined_after)
            return iso_error(ISO_FAILED, "%s: no answer of the other devices for %.0f seconds",
                             comms->description(), joined_after);
        iso_patience_pass(&patience, fabric->host_barrier.crowded);
    }
}

static iso_status begin_to_join(const iso_fabric *fabric, iso_links *links, int count,
                                const unsigned char *key)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < links->n_own; i++) {
        iso_link_member *own = &links->own[i];
        const iso_device *device = fabric->topology.stream_of_slot[links->first_slot[own->domain]]->device;
        ISO_TRY(device->create_stream(device, &own->stream));
        ISO_TRY(links->comms->join(device, key, count, links->member[own->domain], &own->comm));
    }
done:
    return status;
}

static iso_status finish_joining(const iso_fabric *fabric, const iso_links *links)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < links->n_own; i++) {
        iso_status joined = iso_links_await(fabric, links->own[i].comm);
        status = status == ISO_OK ? joined : status;
    }
    return status;
}

/* The first rank of the host makes the key. *joined: all members have. */
static iso_status join(const iso_fabric *fabric, iso_links *links, int count, bool *joined)
{
    struct {
        int good;
        unsigned char key[ISO_DEVICE_COMM_KEY];
    } made = {0};
    iso_status status = iso_comm_rank(fabric->host) == 0 ? links->comms->make_key(made.key) : ISO_OK;
    made.good = status == ISO_OK;
    ISO_TRY(iso_comm_broadcast(fabric->host, 0, &made, sizeof made));
    iso_status mine = made.good ? begin_to_join(fabric, links, count, made.key) : status;
    int good = made.good && mine == ISO_OK;
    ISO_TRY(iso_comm_reduce(fabric->host, ISO_COMM_MIN, ISO_COMM_INT, &good, 1));
    if (good)
        good = (mine = finish_joining(fabric, links)) == ISO_OK;
    if (mine != ISO_OK)
        iso_warn("devices of this host exchange through memory of the host: %s", iso_error_message());
    ISO_TRY(iso_comm_reduce(fabric->host, ISO_COMM_MIN, ISO_COMM_INT, &good, 1));
    *joined = good;
done:
    return status;
}

/* ---- a fabric ---- */

static void free_links(iso_links *links)
{
    for (int i = 0; i < links->n_own; i++) {
        links->comms->abort(links->own[i].comm);
        if (links->own[i].stream)
            links->own[i].stream->device->destroy_stream(links->own[i].stream);
    }
    iso_free(links->own);
    iso_free(links->member);
    iso_free(links->first_slot);
    iso_free(links);
}

/* Whether the library can be used on all ranks of the host. */
static iso_status find_usable(const iso_fabric *fabric, const iso_links *links, bool *usable)
{
    int good = links->comms->open() == ISO_OK;
    iso_status status = iso_comm_reduce(fabric->host, ISO_COMM_MIN, ISO_COMM_INT, &good, 1);
    *usable = good;
    return status;
}

static iso_status make_links(const iso_fabric *fabric, iso_links *links, bool *use)
{
    int count = 0, room = links->member && links->first_slot;
    iso_status status = ISO_OK;
    if (room)
        number_members(fabric, links, &count);
    if (room && are_separate(fabric, links))
        room = list_own(fabric, links) == ISO_OK;
    *use = false;
    ISO_TRY(iso_comm_reduce(fabric->host, ISO_COMM_MIN, ISO_COMM_INT, &room, 1));
    if (!room)
        return iso_no_memory("the devices of a host");
    if (are_separate(fabric, links))
        ISO_TRY(find_usable(fabric, links, use));
    if (*use)
        ISO_TRY(find_distinct(fabric, links, count, use));
    if (*use)
        ISO_TRY(join(fabric, links, count, use));
done:
    return status;
}

iso_status iso_links_open(iso_fabric *fabric)
{
    bool use = false;
    size_t domains = (size_t)fabric->n_domains;
    if (!fabric->topology.device->gather || !fabric->topology.device->comms || fabric->n_host_domains < 2)
        return ISO_OK;
    iso_links *links = iso_new(sizeof *links);
    if (!links)
        return iso_no_memory("the devices of a host");
    links->comms = fabric->topology.device->comms;
    links->member = iso_new(domains * sizeof *links->member);
    links->first_slot = iso_new(domains * sizeof *links->first_slot);
    iso_status status = make_links(fabric, links, &use);
    if (status == ISO_OK && use)
        fabric->links = links;
    else
        free_links(links);
    return status;
}

iso_link_member *iso_links_own(const iso_links *links, int domain)
{
    for (int i = 0; i < links->n_own; i++)
        if (links->own[i].domain == domain)
            return &links->own[i];
    return NULL;
}

void iso_links_abort(const iso_fabric *fabric)
{
    iso_links *links = fabric->links;
    for (int i = 0; links && i < links->n_own; i++) {
        links->comms->abort(links->own[i].comm);
        links->own[i].comm = NULL;
    }
    if (links)
        links->failed = true;
}

iso_status iso_links_fail(iso_fabric *fabric, iso_status status)
{
    iso_patience patience = {0};
    iso_watch *watch = fabric->channel.watch;
    double begun = iso_clock();
    if (fabric->links->failed || iso_watch_check(watch) != ISO_OK)
        return status;
    iso_first_error_keep(&fabric->failed, status);
    iso_links_abort(fabric); /* what other parts wait for ends */
    if (!watch) /* this rank has all devices */
        return status;
    iso_warn("rank %d: %s", fabric->channel.rank, iso_error_message());
    iso_watch_break(watch);
    while (iso_watch_check(watch) == ISO_OK && iso_clock() - begun < reported_after)
        iso_patience_pass(&patience, fabric->host_barrier.crowded);
    return iso_first_error_get(&fabric->failed);
}

void iso_links_close(iso_fabric *fabric)
{
    if (fabric->links)
        free_links(fabric->links);
    fabric->links = NULL;
}
