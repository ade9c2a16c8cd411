/* The watchdog between hosts: one rank of each host, its leader, is connected to the leaders of the other
 * hosts by TCP, and sends the records of its host's ranks twice a second.
 *
 * The leader is the lowest rank of the host that is alive. Every rank listens, because it may become the
 * leader. At first the leader of a later host connects to the lowest rank of an earlier one. A rank that
 * becomes the leader later does not know who leads the other hosts, so it connects to all their ranks.
 * A host that is silent for some seconds is lost: the network or the host has failed. If the connection to a
 * host ends and nobody there takes over, this is known sooner.
 *
 * What comes from other hosts goes into the page, so that a rank that becomes the leader has it. A connection
 * begins with a number that only the ranks of the job know; others are closed. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"

enum {
    RECEIVE = 1 << 16,
    MOST_MESSAGE = 1 << 24,
    MOST_TARGETS = 16 /* ranks of a host to which a new leader connects */
};
/* Seconds. */
static const double suspect_after = 2, cut_after = 7, cut_after_end = 3, connect_within = 2, warn_after = 30,
                    flush_within = 1, await_within = 5, reach_within = 1.5;

typedef enum message_kind { HELLO = 1, STATE, REPORT } message_kind;

typedef struct message_head {
    uint32_t kind, bytes; /* bytes of what follows */
} message_head;

typedef struct hello {
    uint64_t token;
    int32_t rank;
} hello;

/* One rank in a STATE message; n_ring pairs of numbers follow. */
typedef struct state_entry {
    uint64_t progress, signature, beats;
    uint64_t steps, step_time, wait_time;
    uint64_t text[ISO_WATCHDOG_WORDS];
    int32_t rank;
    uint32_t phase, health, n_ring, lack;
} state_entry;

struct iso_watchdog_link {
    int socket;
    int rank;        /* of the other end; -1: not known yet */
    bool connecting; /* the connection is not made yet */
    bool greeted;    /* the other end is a rank of this job */
    bool failed;     /* it is freed when all links were served */
    double age;
    iso_watchdog_buffer in, out;
};

/* ---- one connection ---- */

int iso_watchdog_most_links(const iso_watchdog *w)
{
    return 2 * w->n_ranks + 16;
}

/* -1: not known. */
static void set_rank(iso_watchdog *w, iso_watchdog_link *link, int rank)
{
    if (link->rank >= 0)
        w->peer[link->rank].links--;
    link->rank = rank;
    if (rank >= 0)
        w->peer[rank].links++;
}

static iso_watchdog_link *add_link(iso_watchdog *w, int socket, int rank)
{
    iso_watchdog_link *link = w->n_links < iso_watchdog_most_links(w) ? iso_new(sizeof *link) : NULL;
    if (!link || iso_list_add(w->links, w->n_links, link, "the watchdog's connections") != ISO_OK) {
        iso_free(link);
        close(socket);
        return NULL;
    }
    *link = (iso_watchdog_link){.socket = socket, .rank = -1};
    set_rank(w, link, rank);
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return link;
}

static void free_link(iso_watchdog *w, iso_watchdog_link *link)
{
    set_rank(w, link, -1);
    close(link->socket);
    iso_free(link->in.data);
    iso_free(link->out.data);
    iso_free(link);
}

/* Makes room for so many bytes more. */
static bool make_room(iso_watchdog_buffer *b, size_t bytes)
{
    size_t room = 2 * (b->count + bytes);
    if (b->count + bytes <= b->room)
        return true;
    char *grown = iso_grow(b->data, b->room, room, 1);
    if (!grown)
        return false;
    b->data = grown;
    b->room = room;
    return true;
}

static bool add_bytes(iso_watchdog_buffer *b, const void *bytes, size_t count)
{
    if (!make_room(b, count))
        return false;
    memcpy(b->data + b->count, bytes, count);
    b->count += count;
    return true;
}

static void remove_bytes(iso_watchdog_buffer *b, size_t count)
{
    b->count -= count;
    memmove(b->data, b->data + count, b->count);
}

/* Adds a message, or all of it is left out. */
static void put_message(iso_watchdog_link *link, message_kind kind, const void *data, size_t bytes)
{
    message_head head = {kind, (uint32_t)bytes};
    if (make_room(&link->out, sizeof head + bytes)) {
        add_bytes(&link->out, &head, sizeof head);
        add_bytes(&link->out, data, bytes);
    }
}

/* False: the connection has failed. */
static bool send_some(iso_watchdog_link *link)
{
    while (link->out.count > 0 && !link->connecting) {
        ssize_t sent = send(link->socket, link->out.data, link->out.count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        remove_bytes(&link->out, (size_t)sent);
    }
    return true;
}

static void greet(const iso_watchdog *w, iso_watchdog_link *link)
{
    hello mine = {w->token, w->rank};
    put_message(link, HELLO, &mine, sizeof mine);
}

/* ---- states ---- */

bool iso_watchdog_is_leader(const iso_watchdog *w)
{
    for (int rank = 0; rank < w->rank; rank++)
        if (iso_watchdog_is_local(w, rank) && w->peer[rank].health == ISO_WATCHDOG_ALIVE)
            return false;
    return true;
}

static bool put_state(const iso_watchdog *w, int rank, iso_watchdog_buffer *out)
{
    const iso_watchdog_record *record = &w->page->record[rank];
    const iso_watchdog_peer *peer = &w->peer[rank];
    state_entry entry = {.progress = peer->progress,
                         .signature = atomic_load(&record->signature[iso_watchdog_parity(peer->progress)]),
                         .beats = peer->beats,
                         .steps = atomic_load(&record->steps),
                         .step_time = atomic_load(&record->step_time),
                         .wait_time = atomic_load(&record->wait_time),
                         .rank = rank,
                         .phase = atomic_load(&record->phase),
                         .health = (uint32_t)peer->health,
                         .lack = atomic_load(&record->lack),
                         .n_ring = peer->still > 0 ? ISO_WATCHDOG_RING : 0};
    for (int i = 0; i < ISO_WATCHDOG_WORDS; i++)
        entry.text[i] = atomic_load(&record->text[iso_watchdog_parity(peer->progress)][i]);
    bool good = add_bytes(out, &entry, sizeof entry);
    for (unsigned i = 0; i < entry.n_ring && good; i++) {
        uint64_t pair[2] = {atomic_load(&record->ring[i].sequence), atomic_load(&record->ring[i].hash)};
        good = add_bytes(out, pair, sizeof pair);
    }
    return good;
}

static void send_states(iso_watchdog *w)
{
    iso_watchdog_buffer *out = &w->states;
    bool good = true;
    out->count = 0;
    for (int rank = 0; rank < w->n_ranks && good; rank++)
        if (iso_watchdog_is_local(w, rank))
            good = put_state(w, rank, out);
    for (int i = 0; i < w->n_links && good; i++)
        if (w->links[i]->greeted &&
            w->links[i]->out.count == 0) /* otherwise the last one is still under way */
            put_message(w->links[i], STATE, out->data, out->count);
}

/* The first state of a rank is answered at once, others are not: leaders would do nothing else. */
static void take_state(iso_watchdog *w, const state_entry *entry, const char *ring)
{
    iso_watchdog_record *record = &w->page->record[entry->rank];
    iso_watchdog_peer *peer = &w->peer[entry->rank];
    unsigned at = iso_watchdog_parity(entry->progress);
    w->urgent |= !peer->known;
    peer->silent = 0;
    peer->known = true;
    peer->ended = false;
    for (int i = 0; i < ISO_WATCHDOG_WORDS; i++)
        atomic_store(&record->text[at][i], entry->text[i]);
    atomic_store(&record->signature[at], entry->signature);
    for (unsigned i = 0; i < entry->n_ring; i++) {
        uint64_t pair[2];
        memcpy(pair, ring + i * sizeof pair, sizeof pair);
        atomic_store(&record->ring[i].sequence, 0);
        atomic_store(&record->ring[i].hash, pair[1]);
        atomic_store(&record->ring[i].sequence, pair[0]);
    }
    atomic_store(&record->progress, entry->progress);
    atomic_store(&record->beats, entry->beats);
    atomic_store(&record->step_time, entry->step_time);
    atomic_store(&record->wait_time, entry->wait_time);
    atomic_store(&record->steps, entry->steps);
    atomic_store(&record->phase, entry->phase);
    atomic_store(&record->health, entry->health);
    atomic_store(&record->lack, entry->lack);
}

static void take_states(iso_watchdog *w, const char *data, size_t bytes)
{
    state_entry entry;
    while (bytes >= sizeof entry) {
        memcpy(&entry, data, sizeof entry);
        size_t ring = (size_t)entry.n_ring * 2 * sizeof(uint64_t);
        if (entry.n_ring > ISO_WATCHDOG_RING || bytes - sizeof entry < ring || entry.rank < 0 ||
            entry.rank >= w->n_ranks || iso_watchdog_is_local(w, entry.rank))
            return;
        take_state(w, &entry, data + sizeof entry);
        data += sizeof entry + ring;
        bytes -= sizeof entry + ring;
    }
}

/* The report of another host, whose text is not terminated. It is passed on, because the rank that has printed it may
 * not be connected to all hosts. */
static void take_report(iso_watchdog *w, const iso_watchdog_link *from, const char *data, size_t bytes)
{
    char line[ISO_WATCHDOG_LINE];
    snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1), data);
    iso_watchdog_keep_loss(w, line);
    iso_watchdog_store_report(w, data, bytes);
    atomic_store(&w->page->reported, 1);
    for (int i = 0; i < w->n_links; i++)
        if (w->links[i] != from && w->links[i]->greeted && !w->links[i]->failed) {
            put_message(w->links[i], REPORT, data, bytes);
            send_some(w->links[i]);
        }
}

/* ---- messages ---- */

/* False: the other end is not a rank of this job. */
static bool take_message(iso_watchdog *w, iso_watchdog_link *link, const message_head *head, const char *data)
{
    hello other;
    if (head->kind == HELLO && head->bytes == sizeof other) {
        memcpy(&other, data, sizeof other);
        link->greeted = other.token == w->token && other.rank >= 0 && other.rank < w->n_ranks &&
                        (link->rank < 0 || link->rank == other.rank);
        w->urgent = true;
        if (link->greeted)
            set_rank(w, link, other.rank);
        return link->greeted;
    }
    if (!link->greeted)
        return false;
    if (head->kind == STATE && iso_watchdog_is_leader(w))
        take_states(w, data, head->bytes);
    if (head->kind == REPORT && !atomic_load(&w->page->reported))
        take_report(w, link, data, head->bytes);
    w->urgent |= head->kind == REPORT;
    return true;
}

static bool take_messages(iso_watchdog *w, iso_watchdog_link *link)
{
    size_t at = 0;
    message_head head;
    while (link->in.count - at >= sizeof head) {
        memcpy(&head, link->in.data + at, sizeof head);
        if (head.bytes > MOST_MESSAGE)
            return false;
        if (link->in.count - at - sizeof head < head.bytes)
            break;
        if (!take_message(w, link, &head, link->in.data + at + sizeof head))
            return false;
        at += sizeof head + head.bytes;
    }
    remove_bytes(&link->in, at);
    return true;
}

/* False: the connection has ended. */
static bool receive_some(iso_watchdog *w, iso_watchdog_link *link)
{
    for (;;) {
        if (!make_room(&link->in, RECEIVE))
            return false;
        ssize_t got = recv(link->socket, link->in.data + link->in.count, RECEIVE, MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        if (got == 0)
            return false;
        link->in.count += (size_t)got;
        if (!take_messages(w, link))
            return false;
    }
}

/* ---- connecting ---- */

/* The next address of a rank is tried each time. */
static void call_rank(iso_watchdog *w, int rank)
{
    const iso_watchdog_identity *who = &w->identity[rank];
    if (w->peer[rank].links > 0 || who->n_addresses == 0)
        return;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(who->port)};
    to.sin_addr.s_addr = who->address[w->peer[rank].calls++ % (unsigned)who->n_addresses];
    int number = iso_watchdog_files_take(w, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (number < 0)
        return;
    if (connect(number, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) {
        close(number);
        return;
    }
    iso_watchdog_link *link = add_link(w, number, rank);
    if (link) {
        link->connecting = true;
        greet(w, link);
    }
}

static void call_leaders(iso_watchdog *w)
{
    int here = w->host_of_rank[w->rank];
    bool first = w->host[here].first == w->rank;
    for (int host = 0; host < w->n_hosts; host++) {
        if (first && host < here)
            call_rank(w, w->host[host].first);
        int most = w->host[host].ranks < MOST_TARGETS ? w->host[host].ranks : MOST_TARGETS;
        for (int rank = w->host[host].first, called = 0; !first && host != here && called < most; rank++)
            if (w->host_of_rank[rank] == host) {
                call_rank(w, rank);
                called++;
            }
    }
}

static void accept_all(iso_watchdog *w)
{
    int number;
    while ((number = iso_watchdog_files_take(
                w, accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0) {
        iso_watchdog_link *link = add_link(w, number, -1);
        if (link)
            greet(w, link);
    }
}

/* ---- what the thread calls ---- */

int iso_watchdog_links_poll(const iso_watchdog *w, struct pollfd *polled)
{
    if (w->listener < 0)
        return 0;
    /* Without a descriptor nothing can be accepted before the next heartbeat. */
    polled[0] = (struct pollfd){.fd = w->lack ? -1 : w->listener, .events = POLLIN};
    for (int i = 0; i < w->n_links; i++) {
        const iso_watchdog_link *link = w->links[i];
        short events = link->connecting ? POLLOUT : link->out.count > 0 ? POLLIN | POLLOUT : POLLIN;
        polled[i + 1] = (struct pollfd){.fd = link->socket, .events = events};
    }
    return w->n_links + 1;
}

static bool finish_connecting(iso_watchdog_link *link, short happened)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!link->connecting)
        return true;
    if (!happened)
        return link->age < connect_within;
    link->connecting = false;
    return !getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &size) && !error;
}

/* The process or the host at the other end has ended, unless another rank becomes the leader there. */
static void note_end(iso_watchdog *w, const iso_watchdog_link *link)
{
    if (!link->greeted || !iso_watchdog_is_leader(w))
        return;
    w->urgent = true;
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (w->host_of_rank[rank] == w->host_of_rank[link->rank])
            w->peer[rank].ended = true;
}

static void free_failed_links(iso_watchdog *w)
{
    int kept = 0;
    for (int i = 0; i < w->n_links; i++)
        if (w->links[i]->failed)
            free_link(w, w->links[i]);
        else
            w->links[kept++] = w->links[i];
    w->n_links = kept;
}

/* Links that fail stay in the list until all were served: what one receives may be passed on to all others. */
void iso_watchdog_links_serve(iso_watchdog *w, const struct pollfd *polled)
{
    if (w->listener < 0)
        return;
    int count = w->n_links;
    for (int i = 0; i < count; i++) {
        iso_watchdog_link *link = w->links[i];
        short happened = polled[i + 1].revents;
        bool good = finish_connecting(link, happened);
        if (good && !link->connecting && happened)
            good = receive_some(w, link) && send_some(link);
        link->failed = !good;
        if (!good)
            note_end(w, link);
    }
    free_failed_links(w);
    if (polled[0].revents)
        accept_all(w);
}

/* Judges a rank of another host by when its state was received last. */
static void look_at_host_of(const iso_watchdog *w, int rank, double passed)
{
    iso_watchdog_peer *peer = &w->peer[rank];
    iso_watchdog_record *record = &w->page->record[rank];
    peer->silent += passed;
    atomic_store(&record->silent, (uint32_t)peer->silent);
    if (atomic_load(&record->phase) == ISO_WATCHDOG_ENDED || !peer->known ||
        atomic_load(&record->health) >= ISO_WATCHDOG_DEAD)
        return;
    if (peer->ended && w->host[w->host_of_rank[rank]].ranks == 1)
        atomic_store(&record->health, ISO_WATCHDOG_DEAD);
    else if (peer->silent > (peer->ended ? cut_after_end : cut_after))
        atomic_store(&record->health, ISO_WATCHDOG_CUT);
    else if (peer->silent > suspect_after)
        atomic_store(&record->health, ISO_WATCHDOG_SUSPECT);
}

static bool has_joined(const iso_watchdog *w)
{
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (!iso_watchdog_is_local(w, rank) && !w->peer[rank].known)
            return false;
    return true;
}

static void warn_of_unreachable(iso_watchdog *w)
{
    for (int host = 0; host < w->n_hosts && !w->warned; host++) {
        int rank = w->host[host].first;
        if (iso_watchdog_is_local(w, rank) || w->peer[rank].known || w->peer[rank].silent < warn_after)
            continue;
        w->warned = true;
        if (w->rank == 0)
            iso_warn(
                "the watchdogs of %s and %s cannot connect by TCP (a firewall, or a low ulimit -Hn?): a lost "
                "rank of the other host is not noticed",
                w->identity[w->rank].host, w->identity[rank].host);
    }
}

void iso_watchdog_links_check(iso_watchdog *w, double passed)
{
    bool leader = w->listener >= 0 && iso_watchdog_is_leader(w);
    iso_watchdog_files_look(w, passed);
    for (int rank = 0; rank < w->n_ranks; rank++) {
        if (iso_watchdog_is_local(w, rank))
            continue;
        if (leader)
            look_at_host_of(w, rank, passed);
        w->peer[rank].health = (iso_watchdog_health)atomic_load(&w->page->record[rank].health);
    }
    if (!leader)
        return;
    call_leaders(w);
    send_states(w);
    iso_watchdog_files_warn(w);
    warn_of_unreachable(w);
    if (!atomic_load(&w->joined))
        atomic_store(&w->joined, has_joined(w));
    for (int i = 0; i < w->n_links; i++) {
        w->links[i]->age += passed;
        send_some(w->links[i]);
    }
}

/* Whether the other end has not acknowledged all that was put into this connection. */
static bool is_under_way(const iso_watchdog_link *link)
{
    int bytes = 0;
    struct pollfd polled = {.fd = link->socket};
    return link->out.count > 0 ||
           (poll(&polled, 1, 0) == 0 && !ioctl(link->socket, SIOCOUTQ, &bytes) && bytes > 0);
}

/* Returns when all ranks that are left have what was put into their connections. The process may end then: TCP throws
 * away what is under way when a connection is closed before all that came by it was read. */
static void flush_links(iso_watchdog *w)
{
    double end = iso_clock() + flush_within;
    for (int i = 0; i < w->n_links; i++)
        send_some(w->links[i]);
    for (int i = 0; i < w->n_links; i++) {
        iso_watchdog_link *link = w->links[i];
        bool left = link->greeted && !iso_watchdog_is_lost(w, link->rank);
        while (left && send_some(link) && is_under_way(link) && iso_clock() < end)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* Whether a rank of this host that is left is connected, or there is none that was ever heard of. */
static bool reaches_host(const iso_watchdog *w, int host)
{
    bool left = false;
    for (int rank = 0; rank < w->n_ranks; rank++)
        left |= w->host_of_rank[rank] == host && !iso_watchdog_is_lost(w, rank) &&
                atomic_load(&w->page->record[rank].beats) > 0;
    for (int i = 0; i < w->n_links && left; i++)
        left = !w->links[i]->greeted || w->host_of_rank[w->links[i]->rank] != host ||
               iso_watchdog_is_lost(w, w->links[i]->rank);
    return !left;
}

static bool reaches_all(const iso_watchdog *w)
{
    bool all = true;
    for (int host = 0; host < w->n_hosts && all; host++)
        all = host == w->host_of_rank[w->rank] || reaches_host(w, host);
    return all;
}

/* A rank that has just become the leader, or is none, is not connected yet to the hosts that are left. Without its
 * report they would report its end as a loss of its own. */
static void reach_all(iso_watchdog *w)
{
    struct pollfd *polled = iso_new(((size_t)iso_watchdog_most_links(w) + 1) * sizeof *polled);
    double end = iso_clock() + reach_within;
    while (polled && w->listener >= 0 && !reaches_all(w) && iso_clock() < end) {
        call_leaders(w);
        if (poll(polled, (nfds_t)iso_watchdog_links_poll(w, polled), 20) >= 0)
            iso_watchdog_links_serve(w, polled);
    }
    iso_free(polled);
}

void iso_watchdog_links_report(iso_watchdog *w, const char *text, size_t length)
{
    reach_all(w);
    for (int i = 0; i < w->n_links; i++)
        if (w->links[i]->greeted)
            put_message(w->links[i], REPORT, text, length);
    flush_links(w);
}

/* ---- open and close ---- */

static void find_addresses(iso_watchdog_identity *mine)
{
    struct ifaddrs *list, *at;
    enum { MOST = sizeof mine->address / sizeof *mine->address };
    if (getifaddrs(&list))
        return;
    for (at = list; at && mine->n_addresses < MOST - 1; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) &&
            !(at->ifa_flags & IFF_LOOPBACK))
            mine->address[mine->n_addresses++] = ((struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(list);
    mine->address[mine->n_addresses++] = htonl(INADDR_LOOPBACK); /* hosts that tests simulate */
}

static iso_status find_hosts(iso_watchdog *w)
{
    w->host = iso_new((size_t)w->n_hosts * sizeof *w->host);
    if (!w->host)
        return iso_no_memory("the watchdog of %d hosts", w->n_hosts);
    for (int rank = w->n_ranks - 1; rank >= 0; rank--) {
        iso_watchdog_host *host = &w->host[w->host_of_rank[rank]];
        *host = (iso_watchdog_host){.first = rank, .ranks = host->ranks + 1};
    }
    return ISO_OK;
}

iso_status iso_watchdog_links_open(iso_watchdog *w, iso_watchdog_identity *mine)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof any;
    w->listener = -1;
    if (w->n_hosts == 1)
        return ISO_OK;
    iso_status status = find_hosts(w);
    if (status != ISO_OK)
        return status;
    iso_watchdog_files_add(w, mine);
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (w->listener < 0 || bind(w->listener, (struct sockaddr *)&any, sizeof any) ||
        listen(w->listener, 128) || getsockname(w->listener, (struct sockaddr *)&any, &size))
        return iso_error(ISO_FAILED, "the watchdog: a TCP socket: %s", strerror(errno));
    mine->port = ntohs(any.sin_port);
    find_addresses(mine);
    return ISO_OK;
}

void iso_watchdog_links_await(const iso_watchdog *w)
{
    double end = iso_clock() + await_within;
    if (w->n_hosts == 1 || w->host[w->host_of_rank[w->rank]].first != w->rank)
        return;
    while (!atomic_load(&w->joined) && iso_clock() < end)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

void iso_watchdog_links_close(iso_watchdog *w)
{
    if (w->n_links > 0 && iso_watchdog_is_leader(w)) {
        send_states(w); /* that all ranks have reached iso_finish */
        flush_links(w);
    }
    for (int i = 0; i < w->n_links; i++)
        free_link(w, w->links[i]);
    iso_free(w->host);
    iso_free(w->links);
    iso_free(w->states.data);
    w->n_links = 0;
    if (w->listener > 0)
        close(w->listener);
    iso_watchdog_files_remove(w);
}
