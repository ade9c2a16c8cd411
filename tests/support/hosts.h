/* Simulated hosts for tests. */
#ifndef TESTS_SUPPORT_HOSTS_H
#define TESTS_SUPPORT_HOSTS_H

#include "runtime/session/session.h"

/* host_of_rank[ranks]: each host of the context is divided into hosts of at most `per_host` ranks, those with equal
 * rank / per_host. */
void pretend_hosts(const iso_context *ctx, int per_host, int *host_of_rank);
/* domain_of_slot[n_slots]: every slot joins the domain of an earlier slot of its host, or begins one; `seed` decides.
 * 0: each slot is a domain. */
void pretend_domains(int n_slots, const int *rank_of_slot, const int *host_of_rank, unsigned seed,
                     int *domain_of_slot);
/* For iso_fabric_reserve: the same bytes for each of up to 256 domains. Valid until the next call. */
const size_t *same_bytes(size_t bytes);

#endif
