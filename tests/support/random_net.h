/* Networks of random layers with random sizes and options, from a number. */
#ifndef ISO_TESTS_SUPPORT_RANDOM_NET_H
#define ISO_TESTS_SUPPORT_RANDOM_NET_H

#include "tests/support/nets.h"

/* The kind of the network of this number, the same on every machine and rank. Builds it until the next call, which
 * has another number. */
net_kind random_net_kind(int number);

#endif
