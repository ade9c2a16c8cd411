#include "collectives/shm/uses_impl.h"

#include <stdatomic.h>

#include "runtime/base/clock.h"
#include "runtime/base/wait.h"

static const double closed_after = 10;

/* NULL: nobody has opened it. */
static atomic_int *count_of(const iso_uses *uses, int number)
{
    return uses->counts.base ? (atomic_int *)uses->counts.base + number : NULL;
}

iso_status iso_uses_create(const iso_comm *ranks, int count, iso_uses *uses)
{
    *uses = (iso_uses){0};
    if (iso_comm_size(ranks) == 1)
        return ISO_OK;
    return iso_window_create(ranks, (size_t)count * sizeof(atomic_int), "the counts of what ranks have open",
                             &uses->counts);
}

void iso_uses_destroy(iso_uses *uses)
{
    iso_window_destroy(&uses->counts);
}

void iso_uses_open(const iso_uses *uses, int number)
{
    atomic_fetch_add(count_of(uses, number), 1);
}

void iso_uses_close(const iso_uses *uses, int number)
{
    atomic_fetch_sub(count_of(uses, number), 1);
}

bool iso_uses_await_closed(iso_uses *uses, int number)
{
    atomic_int *count = count_of(uses, number);
    iso_backoff backoff = {0};
    double begun = iso_clock();
    while (count && atomic_load(count) != 0 && !uses->late) {
        iso_backoff_wait(&backoff, true);
        uses->late = iso_clock() - begun > closed_after;
    }
    return !count || atomic_load(count) == 0;
}
