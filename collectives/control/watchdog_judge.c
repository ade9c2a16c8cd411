/* What the watchdog concludes from the ranks' progress: ranks in different collectives, and ranks that others
 * wait for. */
#include <stdio.h>
#include <stdlib.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"

enum { MOST_NAMED = 8, STEPS_BETWEEN = 100 /* two lines of times */ };
static const double moves_within = 0.4; /* seconds: a rank that has not moved for longer may wait for ever */

/* ---- different collectives ---- */

/* The hash of the collectives up to number `sequence`; false if it is no longer known, or not yet. */
static bool hash_at(const iso_watchdog_record *record, uint64_t sequence, uint64_t *hash)
{
    unsigned at = (unsigned)sequence % ISO_WATCHDOG_RING;
    if (atomic_load_explicit(&record->ring[at].sequence, memory_order_acquire) != sequence)
        return false;
    *hash = atomic_load_explicit(&record->ring[at].hash, memory_order_acquire);
    return atomic_load_explicit(&record->ring[at].sequence, memory_order_acquire) == sequence;
}

/* Orders by group, then by sequence number and position, then by rank. */
static int by_key(const void *a, const void *b)
{
    const iso_watchdog_stalled *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks that stand still, in order; returns their number. */
static int list_standing(const iso_watchdog *w)
{
    int count = 0;
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (w->peer[rank].still > moves_within)
            w->standing[count++] = (iso_watchdog_stalled){iso_watchdog_key(w->peer[rank].progress), rank,
                                                          w->identity[rank].group};
    qsort(w->standing, (size_t)count, sizeof *w->standing, by_key);
    return count;
}

static bool call_different(const iso_watchdog *w, int a, int b)
{
    const iso_watchdog_record *first = &w->page->record[a], *second = &w->page->record[b];
    if (w->identity[a].group != w->identity[b].group)
        return false;
    uint64_t progress = w->peer[a].progress, other = w->peer[b].progress, one, two;
    uint64_t sequence = iso_watchdog_sequence(progress < other ? progress : other);
    if (sequence > 0 && hash_at(first, sequence, &one) && hash_at(second, sequence, &two) && one != two)
        return true;
    return iso_watchdog_position(progress) > 0 && iso_watchdog_key(progress) == iso_watchdog_key(other) &&
           atomic_load(&first->signature[iso_watchdog_parity(progress)]) !=
               atomic_load(&second->signature[iso_watchdog_parity(other)]);
}

static bool knows_itself(const iso_watchdog *w, int rank)
{
    uint64_t sequence = iso_watchdog_sequence(w->peer[rank].progress), hash;
    return sequence > 0 && hash_at(&w->page->record[rank], sequence, &hash);
}

/* Two ranks that differ; ranks that differ from one of them and have lower numbers are named instead. */
static void name_lowest(const iso_watchdog *w, int a, int b, int *first, int *other)
{
    int low = a < b ? a : b;
    *first = low;
    *other = a < b ? b : a;
    for (int rank = 0; rank < low; rank++) {
        bool still = w->peer[rank].still > moves_within;
        if (!still || !(call_different(w, rank, *first) || call_different(w, rank, *other)))
            continue;
        *other = call_different(w, rank, *first) ? *first : *other;
        *first = rank;
        return;
    }
}

/* Each rank is compared with the one before it in the sequence. That is enough: a hash covers all collectives up
 * to its number, so a rank that agrees with the one before it agrees with all before that. A rank whose hash is
 * not known is passed over. Ranks of different groups are not compared. */
bool iso_watchdog_find_mismatch(const iso_watchdog *w, int *first, int *other)
{
    int count = list_standing(w), known = -1;
    for (int i = 0; i < count; i++) {
        int rank = w->standing[i].rank, with = -1;
        if (i > 0 && call_different(w, w->standing[i - 1].rank, rank))
            with = w->standing[i - 1].rank;
        else if (known >= 0 && call_different(w, known, rank))
            with = known;
        if (with >= 0) {
            name_lowest(w, with, rank, first, other);
            return true;
        }
        if (knows_itself(w, rank))
            known = rank;
    }
    return false;
}

/* ---- ranks that others wait for ---- */

/* Orders ranks by how far they are: one that has left a collective is further than one inside. */
static uint64_t progress_of(const iso_watchdog *w, int rank)
{
    uint64_t progress = w->peer[rank].progress;
    return iso_watchdog_key(progress) << 1 | !iso_watchdog_inside(progress);
}

/* The rank of the group that has waited longest inside a collective; -1: none waits. A rank that is alone waits
 * for nobody. */
static int longest_waiting(const iso_watchdog *w)
{
    int found = -1;
    for (int rank = 0; rank < w->n_ranks && w->group_size > 1; rank++)
        if (iso_watchdog_in_group(w, rank) && iso_watchdog_inside(w->peer[rank].progress) &&
            (found < 0 || w->peer[rank].still > w->peer[found].still))
            found = rank;
    return found;
}

double iso_watchdog_longest_wait(const iso_watchdog *w)
{
    int rank = longest_waiting(w);
    return rank < 0 ? 0 : w->peer[rank].still;
}

static uint64_t least_progress(const iso_watchdog *w)
{
    uint64_t least = progress_of(w, w->rank);
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (iso_watchdog_in_group(w, rank) && progress_of(w, rank) < least)
            least = progress_of(w, rank);
    return least;
}

/* Ranks of the group with this progress that are alive, or are not. *count: those that were added before. */
static void add_slow_ranks(const iso_watchdog *w, uint64_t progress, bool alive, int *count, iso_text *text)
{
    for (int rank = 0; rank < w->n_ranks; rank++) {
        if (!iso_watchdog_in_group(w, rank) || progress_of(w, rank) != progress ||
            (w->peer[rank].health == ISO_WATCHDOG_ALIVE) != alive || (*count)++ >= MOST_NAMED)
            continue;
        iso_text_add(text, "%s", *count > 1 ? "; " : "");
        iso_watchdog_add_rank(text, w, rank);
    }
}

void iso_watchdog_add_slow(const iso_watchdog *w, iso_text *text)
{
    int waiting = longest_waiting(w), count = 0;
    uint64_t least = least_progress(w);
    add_slow_ranks(w, least, false, &count, text); /* these are likely to be the cause */
    add_slow_ranks(w, least, true, &count, text);
    if (count > MOST_NAMED)
        iso_text_add(text, " and %d more", count - MOST_NAMED);
    if (progress_of(w, waiting) == least)
        return;
    iso_text_add(text, ". Waiting for it: ");
    iso_watchdog_add_rank(text, w, waiting);
}

void iso_watchdog_warn_of_slow(const iso_watchdog *w)
{
    iso_text text = {0};
    iso_watchdog_add_slow(w, &text);
    iso_warn("no progress for %.0f seconds: %s", iso_watchdog_longest_wait(w), iso_text_get(&text));
    iso_text_free(&text);
}

/* ---- times ---- */

/* Steps that all ranks have done since times were printed last; ranks without slots do none. */
static uint64_t steps_of_all(const iso_watchdog *w)
{
    uint64_t least = UINT64_MAX;
    for (int rank = 0; rank < w->n_ranks; rank++) {
        uint64_t steps = atomic_load(&w->page->record[rank].steps);
        if (iso_watchdog_in_group(w, rank) && steps > 0 && steps - w->peer[rank].steps < least)
            least = steps - w->peer[rank].steps;
    }
    return least == UINT64_MAX ? 0 : least;
}

/* Adds a rank's mean times since the last line. */
static void add_times(const iso_watchdog *w, int rank, iso_text *text)
{
    const iso_watchdog_record *record = &w->page->record[rank];
    iso_watchdog_peer *last = &w->peer[rank];
    uint64_t steps = atomic_load(&record->steps), step = atomic_load(&record->step_time),
             wait = atomic_load(&record->wait_time);
    double count = (double)(steps - last->steps);
    if (steps > last->steps)
        iso_text_add(text, "; rank %d %.3f ms, waits %.3f ms", w->identity[rank].group_rank,
                     1e-6 * (double)(step - last->step_time) / count,
                     1e-6 * (double)(wait - last->wait_time) / count);
    last->steps = steps;
    last->step_time = step;
    last->wait_time = wait;
}

void iso_watchdog_print_times(const iso_watchdog *w)
{
    iso_text text = {0};
    uint64_t steps = steps_of_all(w);
    if (steps < STEPS_BETWEEN)
        return;
    for (int rank = 0; rank < w->n_ranks; rank++)
        if (iso_watchdog_in_group(w, rank))
            add_times(w, rank, &text);
    printf("mean of %llu steps, and of the waits for other ranks in it%s\n", (unsigned long long)steps,
           iso_text_get(&text));
    fflush(stdout);
    iso_text_free(&text);
}
