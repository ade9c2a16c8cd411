#include "tests/support/hosts.h"

void pretend_hosts(const iso_context *ctx, int per_host, int *host_of_rank)
{
    int hosts = 0;
    for (int rank = 0; rank < iso_ranks(ctx); rank++) {
        int first = rank / per_host * per_host;
        while (first < rank && iso_host_of_rank(ctx, first) != iso_host_of_rank(ctx, rank))
            first++;
        host_of_rank[rank] = first == rank ? hosts++ : host_of_rank[first];
    }
}

void pretend_domains(int n_slots, const int *rank_of_slot, const int *host_of_rank, unsigned seed,
                     int *domain_of_slot)
{
    for (int slot = 0; slot < n_slots; slot++) {
        seed = seed * 1664525u + (seed ? 1013904223u : 0u);
        int other = (int)((seed >> 8) % (unsigned)(slot + 1));
        bool joins = seed && host_of_rank[rank_of_slot[other]] == host_of_rank[rank_of_slot[slot]];
        domain_of_slot[slot] = joins && other < slot ? domain_of_slot[other] : slot;
    }
}

const size_t *same_bytes(size_t bytes)
{
    static size_t all[256];
    for (int i = 0; i < 256; i++)
        all[i] = bytes;
    return all;
}
