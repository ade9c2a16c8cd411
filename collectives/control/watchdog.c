/* The watchdog: finds ranks that died, were stopped, lost their network, or called another collective.
 *
 * MPI waits for ever for a rank that is gone, so this does not use MPI. Every rank has a record in a
 * page that the ranks of a host share: a count of heartbeats, and the progress of the rank in the sequence of
 * collectives, with a text. The thread that calls collectives writes the progress; entering costs some stores
 * to memory that no other rank writes. The watchdog's thread beats twice a second, so a rank that computes for
 * minutes is alive, and reads the records of the others.
 *
 * A record survives its process: the kernel keeps the page while one rank of the host maps it. So the last
 * collective of a killed rank is known.
 *
 * Signatures are chained: each collective adds the hash of what it is (operation, count) to the hash of all
 * before it. Two ranks with different chains at the same sequence number have called different collectives,
 * then or earlier.
 *
 * The thread exists on every context of more than one rank, at every thread level of MPI: it calls no MPI
 * function. It blocks all signals, so the program's handlers run in the program's threads. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "collectives/control/watchdog_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/host.h"
#include "runtime/base/memory.h"
#include "runtime/base/process.h"

/* ---- publishing ---- */

static void append(char *text, size_t *length, const char *part)
{
    while (*part && *length < ISO_WATCHDOG_TEXT - 1)
        text[(*length)++] = *part++;
}

static void append_number(char *text, size_t *length, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    append(text, length, digits);
}

void iso_watchdog_name_set(iso_watchdog_name *name, const char *op, int64_t count, const char *what)
{
    size_t length = 0;
    char *text = name->text.characters;
    *name = (iso_watchdog_name){.signature = iso_hash_mix(iso_hash_text(0, op) + (uint64_t)count)};
    append(text, &length, op);
    if (count >= 0) {
        append(text, &length, " ");
        append_number(text, &length, count);
    }
    if (what && *what) {
        append(text, &length, " ");
        append(text, &length, what);
    }
}

static void publish(iso_watchdog *w, const iso_watchdog_name *name, uint64_t signature)
{
    iso_watchdog_record *record = w->mine;
    unsigned at = ++w->texts & 1;
    for (int i = 0; i < ISO_WATCHDOG_WORDS; i++)
        atomic_store_explicit(&record->text[at][i], name->text.words[i], memory_order_relaxed);
    atomic_store_explicit(&record->signature[at], signature, memory_order_relaxed);
    atomic_store_explicit(&record->progress, iso_watchdog_progress(w->sequence, w->position, at, true),
                          memory_order_release);
}

const atomic_int *iso_watchdog_flag(const iso_watchdog *w)
{
    return w && !w->ends_process ? &w->page->reported : NULL;
}

static bool is_reported(const iso_watchdog *w)
{
    const atomic_int *word = iso_watchdog_flag(w);
    return word && atomic_load_explicit(word, memory_order_acquire);
}

iso_status iso_watchdog_check(const iso_watchdog *w)
{
    return is_reported(w) ? iso_error(ISO_FAILED, "%s", w->page->loss) : ISO_OK;
}

iso_status iso_watchdog_enter(iso_watchdog *w, const iso_watchdog_name *name)
{
    if (!w)
        return ISO_OK;
    if (is_reported(w))
        return iso_watchdog_check(w);
    w->sequence++;
    w->position = 0;
    w->chain = w->part = iso_hash_mix(w->chain + name->signature);
    unsigned at = (unsigned)w->sequence % ISO_WATCHDOG_RING;
    atomic_store_explicit(&w->mine->ring[at].sequence, 0, memory_order_release);
    atomic_store_explicit(&w->mine->ring[at].hash, w->chain, memory_order_release);
    atomic_store_explicit(&w->mine->ring[at].sequence, w->sequence, memory_order_release);
    publish(w, name, w->chain);
    return ISO_OK;
}

bool iso_watchdog_errors_return(const iso_watchdog *w)
{
    return w && w->errors_return;
}

iso_status iso_watchdog_enter_named(iso_watchdog *w, const char *op, int64_t count, const char *what)
{
    iso_watchdog_name name;
    if (!w)
        return ISO_OK;
    iso_watchdog_name_set(&name, op, count, what);
    return iso_watchdog_enter(w, &name);
}

void iso_watchdog_enter_exchange(iso_watchdog *w, const iso_watchdog_name *name)
{
    if (!w)
        return;
    w->position++;
    w->part = (w->part ^ name->signature) * 0x9e3779b97f4a7c15u;
    publish(w, name, w->part);
}

void iso_watchdog_wait(iso_watchdog *w, const iso_watchdog_name *name)
{
    if (w)
        publish(w, name, w->part);
}

void iso_watchdog_leave(iso_watchdog *w)
{
    if (!w)
        return;
    uint64_t progress = atomic_load_explicit(&w->mine->progress, memory_order_relaxed);
    atomic_store_explicit(&w->mine->progress, progress & ~(uint64_t)1, memory_order_release);
}

int64_t iso_watchdog_time(const iso_watchdog *w)
{
    return w && w->times ? iso_clock_ns() : 0;
}

static void add_time(const iso_watchdog *w, _Atomic uint64_t *sum, int64_t begun)
{
    atomic_fetch_add_explicit(sum, (uint64_t)(iso_watchdog_time(w) - begun), memory_order_relaxed);
}

void iso_watchdog_step_done(iso_watchdog *w, int64_t begun)
{
    if (!w || !w->times)
        return;
    add_time(w, &w->mine->step_time, begun);
    atomic_fetch_add_explicit(&w->mine->steps, 1, memory_order_release);
}

void iso_watchdog_wait_done(iso_watchdog *w, int64_t begun)
{
    if (w && w->times)
        add_time(w, &w->mine->wait_time, begun);
}

void iso_watchdog_devices_failed(iso_watchdog *w)
{
    iso_watchdog_set_phase(w, ISO_WATCHDOG_CUT_OFF);
}

void iso_watchdog_set_phase(iso_watchdog *w, iso_watchdog_phase phase)
{
    if (w)
        atomic_store(&w->mine->phase, phase);
}

bool iso_watchdog_rank_is_missing(const iso_watchdog *w)
{
    return is_reported(w) || (w && atomic_load(&w->misses));
}

/* ---- create and destroy ---- */

static iso_status share_identities(iso_watchdog *w, const iso_channel *channel,
                                   const iso_watchdog_settings *settings)
{
    iso_watchdog_identity mine = {.pid = (int32_t)getpid(),
                                  .pid_space = iso_process_space(),
                                  .errors_return = !w->ends_process,
                                  .group = settings->group,
                                  .group_rank = settings->group_rank};
    snprintf(mine.group_name, sizeof mine.group_name, "%s", settings->group_name);
    iso_host_name(mine.host);
    iso_status status = iso_channel_agree(channel, iso_watchdog_links_open(w, &mine));
    if (status != ISO_OK)
        return status;
    status = iso_comm_gather_all(channel->communicator, &mine, sizeof mine, w->identity);
    for (int rank = 0; rank < w->n_ranks; rank++)
        w->errors_return |= w->identity[rank].errors_return;
    return status;
}

/* The name of the job, which is part of the report's file name, and its secret number. */
static iso_status share_job(iso_watchdog *w, const iso_comm *all)
{
    if (getrandom(&w->token, sizeof w->token, 0) != sizeof w->token)
        w->token = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
    iso_status status = iso_comm_broadcast(all, 0, &w->token, sizeof w->token);
    if (status != ISO_OK)
        return status;
    char moment[ISO_WATCHDOG_JOB];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(moment, sizeof moment, "%lld.%ld", (long long)now.tv_sec, (long)getpid());
    iso_watchdog_name_job(moment, w->job);
    return iso_comm_broadcast(all, 0, w->job, sizeof w->job);
}

static iso_status make_page(iso_watchdog *w, const iso_comm *all)
{
    iso_comm *host = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_comm_split(all, w->host_of_rank[w->rank], w->rank, &host));
    ISO_TRY(iso_window_create(host, sizeof *w->page + (size_t)w->n_ranks * sizeof *w->page->record,
                              "the watchdog's page", &w->window));
    w->page = (iso_watchdog_page *)w->window.base;
    w->mine = &w->page->record[w->rank];
done:
    iso_comm_free(&host);
    return status;
}

static iso_status make(const iso_channel *channel, const iso_watchdog_settings *settings, iso_watchdog *w)
{
    iso_status status = ISO_OK;
    pthread_mutex_init(&w->callback_lock, NULL);
    w->rank = channel->rank;
    w->n_ranks = channel->n_ranks;
    w->n_hosts = settings->n_hosts;
    w->group_size = settings->group_size;
    w->host_of_rank = settings->host_of_rank;
    w->ends_process = settings->ends_process;
    w->timeout = settings->timeout;
    w->timeout_aborts = settings->timeout_aborts;
    w->times = settings->times && settings->group_size > 1;
    w->identity = iso_new((size_t)w->n_ranks * sizeof *w->identity);
    w->peer = iso_new((size_t)w->n_ranks * sizeof *w->peer);
    w->standing = iso_new((size_t)w->n_ranks * sizeof *w->standing);
    bool room = w->identity && w->peer && w->standing;
    ISO_TRY(iso_channel_agree(channel,
                              room ? ISO_OK : iso_no_memory("the watchdog of %d ranks", channel->n_ranks)));
    ISO_TRY(share_identities(w, channel, settings));
    ISO_TRY(share_job(w, channel->communicator));
    ISO_TRY(iso_channel_agree(channel, make_page(w, channel->communicator)));
    status = iso_watchdog_thread_start(w);
    if (status == ISO_OK && settings->begun)
        settings->begun(settings->user);
    ISO_TRY(iso_channel_agree(channel, status));
    iso_watchdog_links_await(w);
    ISO_TRY(iso_channel_agree(channel, ISO_OK));
done:
    return status;
}

iso_status iso_watchdog_create(const iso_channel *channel, const iso_watchdog_settings *settings,
                               iso_watchdog **out)
{
    *out = NULL;
    if (channel->n_ranks == 1)
        return ISO_OK;
    iso_watchdog *w = iso_new(sizeof *w);
    iso_status status = iso_channel_agree(channel, w ? ISO_OK : iso_no_memory("the watchdog"));
    if (status == ISO_OK)
        status = make(channel, settings, w);
    if (status == ISO_OK)
        *out = w;
    else
        iso_watchdog_destroy(w);
    return status;
}

void iso_watchdog_destroy(iso_watchdog *w)
{
    if (!w)
        return;
    iso_watchdog_thread_end(w);
    iso_watchdog_links_close(w);
    iso_window_destroy(&w->window);
    iso_free(w->standing);
    iso_free(w->peer);
    iso_free(w->identity);
    iso_free(w);
}
