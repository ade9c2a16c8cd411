/* The context, and the parts of its making. */
#ifndef ISO_SESSION_IMPL_H
#define ISO_SESSION_IMPL_H

#include "collectives/control/channel.h"
#include "runtime/session/session.h"

typedef struct iso_option_value {
    const char *name; /* of the table in options.c */
    char *value;
} iso_option_value;

struct iso_context {
    iso_channel channel; /* what collectives/control needs */
    MPI_Comm shutdown;   /* of the same ranks, for iso_finish alone: a rank that fails meets there nobody's
                            other collective */
    bool began_mpi;
    int n_hosts, n_host_ranks; /* n_host_ranks: of this rank's host */
    int *host_of_rank;         /* [n_ranks] */
    int n_threads;
    uint64_t seed;
    iso_role_kind role;
    iso_option_value *options;
    int n_options;
};

/* Takes our options out of argv and checks them. Local. */
iso_status iso_options_take(iso_context *ctx, int *argc, char ***argv);
/* The options that all ranks must share, "mesh=data=2 seed=7", into text. */
void iso_options_describe(const iso_context *ctx, char *text, size_t size);
void iso_options_free(iso_context *ctx);

/* ISO_INVALID where a variable of the environment has a value that it must not have, or asks for what there
 * is not. Local. */
iso_status iso_launcher_check(void);
/* Whether a launcher started this process as one of several MPI ranks. ISO_INVALID where one did, but without
 * giving MPI a way to start. */
iso_status iso_launcher_find(bool *found);
/* Settings for Open MPI, each only where the user has not set it; before MPI_Init. */
void iso_launcher_prepare(void);
/* Ranks that the launcher says it has started; 0 where it does not say. */
int iso_launcher_ranks(void);

/* Fills hosts, host_ranks, host_of_rank and threads. Collective. */
iso_status iso_hosts_find(iso_context *ctx);

#endif
