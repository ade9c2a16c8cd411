/* Simulated hosts for tests. */
#ifndef TESTS_SUPPORT_HOSTS_H
#define TESTS_SUPPORT_HOSTS_H

#include "runtime/session/session.h"

/* host_of_rank[ranks]: each host of the context is divided into hosts of at most `per_host` ranks, those with equal
 * rank / per_host. */
void pretend_hosts(const iso_context *ctx, int per_host, int *host_of_rank);

#endif
