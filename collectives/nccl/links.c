/* The communicator of the devices of a host. */
#include <string.h>

#include "collectives/coll_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/device.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/base/remote_error.h"
#include "runtime/base/wait.h"

/* Seconds, at most: until all have joined, until those that are closed are finalized, and until the watchdog has
 * reported. */
static const double joined_after = 300, closed_after = 30, reported_after = 60;

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

/* Members that are waited for, one after another. */
typedef struct wait_for_members {
    iso_device_comm *const *list;
    int count, at; /* at: the first that has not begun its work */
    double begun, limit;
} wait_for_members;

/* Tests them without waiting. An error: of one of them, of a lost rank, or of time. */
static iso_status test_members(const iso_fabric *fabric, wait_for_members *w)
{
    const iso_device_comms *comms = fabric->topology.device->comms;
    iso_status status = ISO_OK;
    bool done = true;
    while (w->at < w->count && done) {
        ISO_TRY(comms->test(w->list[w->at], &done));
        w->at += done;
    }
    if (w->at < w->count)
        status = iso_watchdog_check(fabric->channel.watchdog);
    if (w->at < w->count && status == ISO_OK && iso_clock() - w->begun > w->limit)
        status = iso_error(ISO_FAILED, "%s: no answer of the other devices for %.0f seconds",
                           comms->description(), w->limit);
done:
    return status;
}

static iso_status await_member(const iso_fabric *fabric, iso_device_comm *comm, double begun, double limit)
{
    wait_for_members w = {&comm, 1, 0, begun, limit};
    iso_backoff backoff = {0};
    iso_status status = test_members(fabric, &w);
    while (status == ISO_OK && w.at < w.count) {
        iso_backoff_wait(&backoff, fabric->host_barrier.crowded);
        status = test_members(fabric, &w);
    }
    return status;
}

iso_status iso_links_await(const iso_fabric *fabric, iso_device_comm *comm)
{
    return await_member(fabric, comm, iso_clock(), joined_after);
}

/* Waits for several members, and for those of the other ranks of `links`, which call it too. *well: none has failed;
 * otherwise all ranks know at once, and the error of this rank, if any, is returned. The ranks agree again and again:
 * what a library makes may fail on one rank alone, the others would wait for it, and its abort for them. */
static iso_status await_all(const iso_fabric *fabric, const iso_links *links, iso_device_comm *const *list,
                            int count, bool *well)
{
    wait_for_members w = {list, count, 0, iso_clock(), joined_after};
    iso_backoff backoff = {0};
    for (;;) {
        iso_status mine = test_members(fabric, &w);
        uint64_t any[] = {mine != ISO_OK, w.at < w.count}; /* that have failed, that wait */
        iso_status met = iso_comm_reduce(links->ranks, ISO_COMM_OR, ISO_COMM_U64, any, 2);
        *well = met == ISO_OK && !any[0];
        if (!*well || !any[1])
            return mine != ISO_OK ? mine : met;
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

/* The first rank makes the key. list: [own], room for the members. *joined: all have. */
static iso_status join_all(const iso_fabric *fabric, iso_links *links, iso_device_comm **list, bool *joined)
{
    unsigned char key[ISO_DEVICE_COMM_KEY] = {0};
    iso_status status = list ? ISO_OK : iso_no_memory("the devices of a job");
    if (status == ISO_OK && iso_comm_rank(links->ranks) == 0)
        status = links->comms->make_key(key);
    ISO_TRY(find_well(links, status, joined));
    if (!*joined)
        return ISO_OK;
    ISO_TRY(iso_comm_broadcast(links->ranks, 0, key, sizeof key));
    ISO_TRY(find_well(links, begin_to_join(fabric, links, key), joined));
    if (!*joined)
        return ISO_OK;
    for (int i = 0; i < links->n_own; i++)
        list[i] = links->own[i].comm;
    status = await_all(fabric, links, list, links->n_own, joined);
done:
    return status;
}

static iso_status join(const iso_fabric *fabric, iso_links *links, bool *joined)
{
    iso_device_comm **list = iso_new(((size_t)links->n_own + 1) * sizeof(iso_device_comm *));
    iso_status status = join_all(fabric, links, list, joined);
    iso_free(list);
    return status;
}

/* ---- walks ---- */

typedef void visit_function(void *arg, iso_device_comm **comm);
/* Visits each communicator that this rank has of `of`: those that were split off before the others. */
typedef void walk_function(const void *of, visit_function *visit, void *arg);

static void walk_comms(iso_device_comm **comms, int count, visit_function *visit, void *arg)
{
    for (int i = 0; i < count; i++)
        if (comms[i])
            visit(arg, &comms[i]);
}

static void walk_links(const void *of, visit_function *visit, void *arg)
{
    const iso_links *links = of;
    for (int s = 0; links && s < links->n_splits; s++)
        walk_comms(links->splits[s], links->n_own, visit, arg);
    for (int i = 0; links && i < links->n_own; i++)
        walk_comms(&links->own[i].comm, 1, visit, arg);
}

static void walk_fabric(const void *of, visit_function *visit, void *arg)
{
    const iso_fabric *fabric = of;
    walk_links(fabric->links, visit, arg);
    walk_links(fabric->all_links, visit, arg);
}

/* ---- the end of communicators ---- */

typedef struct ending {
    const iso_fabric *fabric;
    bool closes; /* what can be; else all are aborted */
    bool any;
    double begun;
} ending;

/* The error for which a fabric may be closed stays. */
static void begin_end(void *arg, iso_device_comm **comm)
{
    ending *e = arg;
    iso_first_error kept = {ISO_OK};
    e->any = true;
    if (!e->closes)
        return;
    iso_first_error_keep(&kept, ISO_FAILED);
    e->fabric->topology.device->comms->finalize(*comm); /* end_comm finds an error */
    iso_first_error_get(&kept);
}

static bool is_finalized(const ending *e, iso_device_comm *comm)
{
    iso_first_error kept = {ISO_OK};
    if (!e->closes)
        return false;
    iso_first_error_keep(&kept, ISO_FAILED);
    bool good = await_member(e->fabric, comm, e->begun, closed_after) == ISO_OK;
    iso_first_error_get(&kept);
    return good;
}

static void end_comm(void *arg, iso_device_comm **comm)
{
    const ending *e = arg;
    const iso_device_comms *comms = e->fabric->topology.device->comms;
    if (is_finalized(e, *comm))
        comms->destroy(*comm);
    else
        comms->abort(*comm);
    *comm = NULL;
}

/* Ends communicators together. closes: their work is done, unless the fabric has failed; one that cannot be closed,
 * or not in time, is aborted. */
static void end_comms(const iso_fabric *fabric, walk_function *walk, const void *of, bool closes)
{
    ending e = {.fabric = fabric, .closes = closes && fabric->failed.status == ISO_OK, .begun = iso_clock()};
    walk(of, begin_end, &e);
    if (!e.any) /* the library may not be there */
        return;
    fabric->topology.device->comms->begin_group();
    walk(of, end_comm, &e);
    fabric->topology.device->comms->end_group();
}

/* ---- a fabric ---- */

/* Aborts the communicators that are left. */
static void links_free(const iso_fabric *fabric, iso_links *links)
{
    if (!links)
        return;
    end_comms(fabric, walk_links, links, false);
    for (int i = 0; i < links->n_own; i++)
        if (links->own[i].stream && !links->own[i].lent)
            links->own[i].stream->device->destroy_stream(links->own[i].stream);
    for (int s = 0; s < links->n_splits; s++)
        iso_free(links->splits[s]);
    iso_free(links->splits);
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
        links_free(fabric, links);
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
        *out = fabric->all_links = links;
    else
        links_free(fabric, links);
    return status;
}

iso_status iso_links_check(const iso_links *links)
{
    return links->failed
               ? iso_error(ISO_FAILED, "%s: its communicator has failed before", links->comms->description())
               : ISO_OK;
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
    end_comms(fabric, walk_fabric, fabric, false);
    if (fabric->links)
        fabric->links->failed = true;
    if (fabric->all_links)
        fabric->all_links->failed = true;
}

iso_status iso_links_fail(iso_fabric *fabric, iso_status status)
{
    iso_backoff backoff = {0};
    iso_watchdog *watchdog = fabric->channel.watchdog;
    double begun = iso_clock();
    if (fabric->failed.status != ISO_OK || iso_watchdog_check(watchdog) != ISO_OK)
        return status;
    iso_first_error_keep(&fabric->failed, status);
    if (watchdog)
        iso_warn("rank %d: %s", fabric->channel.rank, iso_error_message());
    /* First, since the abort waits for the other devices of the host, whose ranks may hear of it only so. */
    iso_watchdog_devices_failed(watchdog);
    iso_links_abort(fabric); /* what other parts wait for ends */
    while (watchdog && iso_watchdog_check(watchdog) == ISO_OK && iso_clock() - begun < reported_after)
        iso_backoff_wait(&backoff, fabric->host_barrier.crowded);
    return iso_first_error_get(&fabric->failed);
}

typedef struct testing {
    const iso_device_comms *comms;
    iso_status status;
} testing;

static void test_comm(void *arg, iso_device_comm **comm)
{
    bool begun;
    testing *t = arg;
    if (t->status == ISO_OK)
        t->status = t->comms->test(*comm, &begun);
}

iso_status iso_links_test(iso_fabric *fabric)
{
    testing t = {fabric->topology.device->comms, ISO_OK};
    walk_fabric(fabric, test_comm, &t);
    return t.status != ISO_OK ? iso_links_fail(fabric, t.status)
                              : iso_watchdog_check(fabric->channel.watchdog);
}

void iso_links_close(iso_fabric *fabric)
{
    end_comms(fabric, walk_fabric, fabric, true);
    links_free(fabric, fabric->all_links); /* its streams may be lent by the others */
    links_free(fabric, fabric->links);
    fabric->all_links = fabric->links = NULL;
}

/* ---- splitting ---- */

typedef struct splitting {
    iso_fabric *fabric;
    iso_links *links;
    const int *number;      /* [domains] */
    iso_device_comm **comm; /* [own] */
} splitting;

/* Devices that are left over get a communicator of their own each: NCCL 2.28 crashes where the split of a member
 * without a color is aborted. */
static iso_status begin_split(const splitting *s)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < s->links->n_own; i++) {
        const iso_link_member *own = &s->links->own[i];
        int color = s->number[own->domain] >= 0 ? 0 : 1 + s->links->member[own->domain];
        ISO_TRY(s->links->comms->split(own->comm, color, &s->comm[i]));
    }
done:
    return status;
}

/* list: [2 * own], room for members. If one cannot begin, none waits for it. */
static iso_status try_to_split(const splitting *s, iso_device_comm **list, bool *well)
{
    iso_status status = ISO_OK;
    int count = s->links->n_own;
    ISO_TRY(find_well(s->links, list ? begin_split(s) : iso_no_memory("the devices of a job"), well));
    if (!*well)
        return ISO_OK;
    for (int i = 0; i < count; i++) {
        list[i] = s->links->own[i].comm;
        list[count + i] = s->comm[i];
    }
    status = await_all(s->fabric, s->links, list, 2 * count, well);
done:
    return status;
}

static void walk_left_over(const void *of, visit_function *visit, void *arg)
{
    const splitting *s = of;
    for (int i = 0; i < s->links->n_own; i++)
        if (s->number[s->links->own[i].domain] < 0)
            walk_comms(&s->comm[i], 1, visit, arg);
}

static iso_status split(const splitting *s)
{
    bool well = false;
    iso_device_comm **list = iso_new((2 * (size_t)s->links->n_own + 1) * sizeof(iso_device_comm *));
    iso_status status = try_to_split(s, list, &well);
    iso_free(list);
    if (status == ISO_OK && !well)
        status = iso_error_remote(iso_error(ISO_FAILED, "a communicator cannot be split on another rank"));
    if (status == ISO_OK)
        end_comms(s->fabric, walk_left_over, s, true);
    return status;
}

iso_status iso_links_split(iso_fabric *fabric, iso_links *links, const int *number,
                           iso_device_comm *const **out)
{
    splitting s = {fabric, links, number, NULL};
    bool well;
    if (links->failed) /* on all ranks, then */
        return iso_links_check(links);
    s.comm = iso_new(((size_t)links->n_own + 1) * sizeof(iso_device_comm *));
    iso_status status = s.comm ? iso_list_add(links->splits, links->n_splits, s.comm, "the devices of a job")
                               : iso_no_memory("the devices of a job");
    if (status != ISO_OK)
        iso_free(s.comm);
    status = find_well(links, status, &well);
    if (status == ISO_OK && !well)
        status = iso_error_remote(iso_error(ISO_FAILED, "a communicator cannot be split on another rank"));
    if (status == ISO_OK)
        status = split(&s);
    if (status == ISO_OK) {
        *out = s.comm;
    } else {
        end_comms(fabric, walk_links, links, false);
        links->failed = true;
    }
    return status;
}
