/* The communicator of the devices of a host. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "collectives/components_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/wait.h"

/* Seconds, at most: until all have joined, and until the watchdog has reported. */
static const double joined_after = 300, reported_after = 60;

/* ---- whether links are used ---- */

static void number_members(const iso_fabric *fabric, iso_links *links)
{
    links->count = 0;
    for (int domain = 0; domain < fabric->n_domains; domain++)
        links->member[domain] = links->first_slot[domain] = -1;
    for (int slot = fabric->topology.n_slots - 1; slot >= 0; slot--)
        if (links->all || iso_fabric_host_of_slot(fabric, slot) == fabric->host_number)
            links->first_slot[fabric->domain_of_slot[slot]] = slot;
    for (int domain = 0; domain < fabric->n_domains; domain++)
        if (links->first_slot[domain] >= 0)
            links->member[domain] = links->count++;
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

/* Whether all ranks are well; else this one's error stands. Collective. */
static iso_status find_well(const iso_links *links, iso_status mine, bool *well)
{
    iso_status status = iso_comm_all(links->ranks, mine == ISO_OK, well);
    return mine != ISO_OK ? mine : status;
}

static const iso_device *device_of(const iso_fabric *fabric, const iso_links *links, int domain)
{
    return fabric->topology.stream_of_slot[links->first_slot[domain]]->device;
}

enum { WORDS = ISO_DEVICE_IDENTITY / sizeof(uint64_t) };

static iso_status identify_own(const iso_fabric *fabric, const iso_links *links, uint64_t *all)
{
    iso_status status = all ? ISO_OK : iso_no_memory("%d devices", links->count);
    for (int i = 0; i < links->n_own && status == ISO_OK; i++) {
        const iso_device *device = device_of(fabric, links, links->own[i].domain);
        uint64_t *own = all + (size_t)links->member[links->own[i].domain] * WORDS;
        status = device->identify(device, (unsigned char *)own);
    }
    return status;
}

/* Whether each domain is a device of its own: the library takes a device once. Collective. */
static iso_status find_distinct(const iso_fabric *fabric, const iso_links *links, bool *distinct)
{
    uint64_t *all = iso_new((size_t)links->count * WORDS * sizeof *all);
    iso_status status = find_well(links, identify_own(fabric, links, all), distinct);
    if (status == ISO_OK && *distinct)
        status = iso_comm_reduce(links->ranks, ISO_COMM_OR, ISO_COMM_U64, all, links->count * WORDS);
    for (int i = 0; *distinct && i < links->count; i++)
        for (int other = 0; other < i; other++)
            *distinct &= memcmp(all + i * WORDS, all + other * WORDS, ISO_DEVICE_IDENTITY) != 0;
    iso_free(all);
    if (status != ISO_OK || *distinct)
        return status;
    return iso_error(ISO_INVALID,
                     "slots of one GPU are in several memory domains, and NCCL takes a GPU once");
}

/* ---- joining ---- */

iso_status iso_links_await(const iso_fabric *fabric, iso_device_comm *comm)
{
    const iso_device_comms *comms = fabric->topology.device->comms;
    iso_backoff backoff = {0};
    double begun = iso_clock();
    for (;;) {
        bool done = false;
        iso_status status = comms->test(comm, &done);
        if (status != ISO_OK || done)
            return status;
        status = iso_watchdog_check(fabric->channel.watchdog);
        if (status != ISO_OK)
            return status;
        if (iso_clock() - begun > joined_after)
            return iso_error(ISO_FAILED, "%s: no answer of the other devices for %.0f seconds",
                             comms->description(), joined_after);
        iso_backoff_wait(&backoff, fabric->host_barrier.crowded);
    }
}

/* The stream of another communicator of the device, or one of its own. */
static iso_status find_stream(const iso_fabric *fabric, const iso_device *device, iso_link_member *own)
{
    const iso_link_member *other = fabric->links ? iso_links_own(fabric->links, own->domain) : NULL;
    own->lent = other != NULL;
    if (other)
        own->stream = other->stream;
    return other ? ISO_OK : device->create_stream(device, &own->stream);
}

static iso_status begin_to_join(const iso_fabric *fabric, iso_links *links, const unsigned char *key)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < links->n_own; i++) {
        iso_link_member *own = &links->own[i];
        const iso_device *device = device_of(fabric, links, own->domain);
        ISO_TRY(find_stream(fabric, device, own));
        ISO_TRY(links->comms->join(device, key, links->count, links->member[own->domain], &own->comm));
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

/* The first rank makes the key. *joined: all members have. */
static iso_status join(const iso_fabric *fabric, iso_links *links, bool *joined)
{
    unsigned char key[ISO_DEVICE_COMM_KEY] = {0};
    iso_status status = iso_comm_rank(links->ranks) == 0 ? links->comms->make_key(key) : ISO_OK;
    ISO_TRY(find_well(links, status, joined));
    if (!*joined)
        return ISO_OK;
    ISO_TRY(iso_comm_broadcast(links->ranks, 0, key, sizeof key));
    ISO_TRY(find_well(links, begin_to_join(fabric, links, key), joined));
    if (*joined)
        ISO_TRY(find_well(links, finish_joining(fabric, links), joined));
done:
    return status;
}

/* ---- a fabric ---- */

void iso_links_free(iso_links *links)
{
    if (!links)
        return;
    for (int i = 0; i < links->n_own; i++) {
        if (links->own[i].comm) /* else the library may not be there */
            links->comms->abort(links->own[i].comm);
        if (links->own[i].stream && !links->own[i].lent)
            links->own[i].stream->device->destroy_stream(links->own[i].stream);
    }
    iso_free(links->own);
    iso_free(links->member);
    iso_free(links->first_slot);
    iso_free(links);
}

static iso_status begin_links(const iso_fabric *fabric, iso_links *links)
{
    size_t domains = (size_t)fabric->n_domains;
    if (!links)
        return iso_no_memory("the devices of a job");
    links->comms = fabric->topology.device->comms;
    links->member = iso_new(domains * sizeof *links->member);
    links->first_slot = iso_new(domains * sizeof *links->first_slot);
    if (!links->member || !links->first_slot)
        return iso_no_memory("the devices of a job");
    number_members(fabric, links);
    return list_own(fabric, links);
}

/* *use: all members have joined. An error of this rank alone says why not. */
static iso_status join_if_possible(const iso_fabric *fabric, iso_links *links, bool *use)
{
    iso_status status = find_well(links, links->comms->open(), use);
    if (*use)
        status = find_distinct(fabric, links, use);
    if (!*use)
        return status;
    status = join(fabric, links, use);
    if (status != ISO_OK && !links->all)
        iso_warn("GPUs of this host exchange through memory of the host: %s", iso_error_message());
    return status;
}

iso_status iso_links_open(iso_fabric *fabric)
{
    bool use = false;
    if (!fabric->topology.device->gather || !fabric->topology.device->comms || fabric->n_host_domains < 2)
        return ISO_OK;
    iso_links none = {.ranks = fabric->host}, *links = iso_new(sizeof *links);
    if (links)
        *links = none;
    iso_status status = find_well(&none, begin_links(fabric, links), &use);
    if (use && are_separate(fabric, links))
        join_if_possible(fabric, links, &use);
    else
        use = false;
    if (use)
        fabric->links = links;
    else
        iso_links_free(links);
    return status;
}

iso_status iso_links_open_all(iso_fabric *fabric, iso_links **out)
{
    bool use = false;
    iso_links none = {.ranks = fabric->channel.communicator, .all = true}, *links = iso_new(sizeof *links);
    if (links)
        *links = none;
    iso_status status = find_well(&none, begin_links(fabric, links), &use);
    if (use)
        status = join_if_possible(fabric, links, &use);
    status = iso_channel_agree(&fabric->channel, status);
    if (status == ISO_OK && use)
        *out = links;
    else
        iso_links_free(links);
    return status;
}

iso_link_member *iso_links_own(const iso_links *links, int domain)
{
    for (int i = 0; i < links->n_own; i++)
        if (links->own[i].domain == domain)
            return &links->own[i];
    return NULL;
}

void iso_links_abort_members(iso_links *links)
{
    for (int i = 0; links && i < links->n_own; i++) {
        links->comms->abort(links->own[i].comm);
        links->own[i].comm = NULL;
    }
    if (links)
        links->failed = true;
}

void iso_links_abort(const iso_fabric *fabric)
{
    int count;
    const iso_coll_component *const *components = iso_coll_components(&count);
    iso_links_abort_members(fabric->links);
    for (int c = 0; c < count; c++)
        if (fabric->modules[c] && components[c]->abort)
            components[c]->abort(fabric->modules[c]);
}

iso_status iso_links_fail(iso_fabric *fabric, iso_status status)
{
    iso_backoff backoff = {0};
    iso_watchdog *watchdog = fabric->channel.watchdog;
    double begun = iso_clock();
    if (fabric->failed.status != ISO_OK || iso_watchdog_check(watchdog) != ISO_OK)
        return status;
    iso_first_error_keep(&fabric->failed, status);
    iso_links_abort(fabric); /* what other parts wait for ends */
    if (!watchdog)           /* this rank has all devices */
        return status;
    iso_warn("rank %d: %s", fabric->channel.rank, iso_error_message());
    iso_watchdog_devices_failed(watchdog);
    while (iso_watchdog_check(watchdog) == ISO_OK && iso_clock() - begun < reported_after)
        iso_backoff_wait(&backoff, fabric->host_barrier.crowded);
    return iso_first_error_get(&fabric->failed);
}

void iso_links_close(iso_fabric *fabric)
{
    iso_links_free(fabric->links);
    fabric->links = NULL;
}
