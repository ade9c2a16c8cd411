/* Which ranks that stand still have called different collectives: states of many ranks, compared with what each pair
 * of ranks says about itself. Ranks: 1 */
#include <check.h>
#include <stdlib.h>

#include "collectives/control/watchdog_impl.h"
#include "tests/support/run_tests.h"

enum { RANKS = 12, CASES = 4000, LONGEST = 50, FAR = 40 };

/* The collectives of a rank: its kind of each; ranks of one program have one list. Only ranks of one group are
 * compared. */
typedef struct state {
    int group[RANKS], program[RANKS], sequence[RANKS], position[RANKS], part[RANKS];
    bool still[RANKS], known[RANKS];
} state;

static uint64_t random_bits(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

static int below(int n)
{
    return (int)(random_bits() % (uint64_t)n);
}

/* Programs 1 and 2 leave program 0 at collective 10 and 30. */
static int kind(int program, int number)
{
    return program == 0 || number < (program == 1 ? 10 : 30) ? 1 : 1 + program;
}

static uint64_t hash_of(int program, int sequence)
{
    uint64_t hash = 1;
    for (int i = 1; i <= sequence; i++)
        hash = hash * 6364136223846793005u + (uint64_t)kind(program, i);
    return hash;
}

static void publish(iso_watchdog *w, const state *s, int rank)
{
    iso_watchdog_record *record = &w->page->record[rank];
    for (int i = 0; i < ISO_WATCHDOG_RING; i++)
        atomic_store(&record->ring[i].sequence, 0);
    for (int n = s->sequence[rank]; n > 0 && n > s->sequence[rank] - ISO_WATCHDOG_RING && s->known[rank];
         n--) {
        atomic_store(&record->ring[n % ISO_WATCHDOG_RING].sequence, (uint64_t)n);
        atomic_store(&record->ring[n % ISO_WATCHDOG_RING].hash, hash_of(s->program[rank], n));
    }
    atomic_store(&record->signature[rank & 1],
                 hash_of(s->program[rank], s->sequence[rank]) + 977 * (uint64_t)s->part[rank]);
    w->identity[rank].group = s->group[rank];
    w->peer[rank] =
        (iso_watchdog_peer){.still = s->still[rank] ? 1 : 0,
                            .progress = iso_watchdog_progress((uint64_t)s->sequence[rank],
                                                              (uint64_t)s->position[rank], rank & 1, true)};
}

static bool pair_differs(const state *s, int a, int b)
{
    int least = s->sequence[a] < s->sequence[b] ? s->sequence[a] : s->sequence[b];
    int most = s->sequence[a] + s->sequence[b] - least;
    if (!s->still[a] || !s->still[b] || s->group[a] != s->group[b])
        return false;
    if (least == most && s->position[a] > 0 && s->position[a] == s->position[b] &&
        (s->part[a] != s->part[b] || hash_of(s->program[a], least) != hash_of(s->program[b], least)))
        return true;
    return least > 0 && s->known[a] && s->known[b] && most - least < ISO_WATCHDOG_RING &&
           hash_of(s->program[a], least) != hash_of(s->program[b], least);
}

static bool any_differ(const state *s)
{
    for (int a = 0; a < RANKS; a++)
        for (int b = a + 1; b < RANKS; b++)
            if (pair_differs(s, a, b))
                return true;
    return false;
}

static state random_state(void)
{
    state s;
    int from = below(LONGEST), spread = 1 + below(below(2) ? 4 : FAR), programs = 1 + below(3),
        groups = 1 + below(2);
    for (int r = 0; r < RANKS; r++) {
        s.group[r] = below(groups);
        s.program[r] = below(programs);
        s.sequence[r] = from + below(spread);
        s.position[r] = below(3);
        s.part[r] = below(8) == 0;
        s.still[r] = below(3) > 0;
        s.known[r] = below(4) > 0;
    }
    return s;
}

static iso_watchdog *new_watch(void)
{
    iso_watchdog *w = calloc(1, sizeof *w);
    ck_assert(w);
    w->n_ranks = RANKS;
    w->page = aligned_alloc(128, sizeof *w->page + RANKS * sizeof *w->page->record);
    w->peer = calloc(RANKS, sizeof *w->peer);
    w->standing = calloc(RANKS, sizeof *w->standing);
    w->identity = calloc(RANKS, sizeof *w->identity);
    ck_assert(w->page && w->peer && w->standing && w->identity);
    return w;
}

static void free_watch(iso_watchdog *w)
{
    free(w->identity);
    free(w->standing);
    free(w->peer);
    free(w->page);
    free(w);
}

START_TEST(a_mismatch_is_found_where_two_ranks_differ)
{
    iso_watchdog *w = new_watch();
    int found = 0;
    for (int i = 0; i < CASES; i++) {
        state s = random_state();
        int first = -1, other = -1;
        for (int r = 0; r < RANKS; r++)
            publish(w, &s, r);
        bool differ = iso_watchdog_find_mismatch(w, &first, &other);
        ck_assert_msg(differ == any_differ(&s), "case %d: %s", i,
                      differ ? "no two ranks differ" : "two ranks differ");
        ck_assert_msg(!differ || (first < other && pair_differs(&s, first, other)),
                      "case %d: ranks %d and %d do not differ", i, first, other);
        found += differ;
    }
    ck_assert_int_gt(found, CASES / 4);
    ck_assert_int_lt(found, CASES * 3 / 4);
    free_watch(w);
}
END_TEST

int main(void)
{
    return RUN_TESTS("watchdog_judge", 0, a_mismatch_is_found_where_two_ranks_differ);
}
