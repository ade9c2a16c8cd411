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
