#include "runtime/session/facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "collectives/control/control.h"
#include "collectives/mpi/call.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"

/* ---- the library ---- */

static iso_thread_support find_level(int provided)
{
    return provided == MPI_THREAD_MULTIPLE     ? ISO_THREAD_MULTIPLE
           : provided == MPI_THREAD_SERIALIZED ? ISO_THREAD_SERIALIZED
           : provided == MPI_THREAD_FUNNELED   ? ISO_THREAD_FUNNELED
                                               : ISO_THREAD_SINGLE;
}

const char *iso_thread_support_name(iso_thread_support level)
{
    static const char *const names[] = {"unknown", "MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                        "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    return names[level];
}

static void describe_headers(char *text, size_t size)
{
#ifdef OMPI_MAJOR_VERSION
    snprintf(text, size, "Open MPI v%d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
    snprintf(text, size, "%s", "");
#endif
}

/* "Open MPI v4.1.4, package: ..." -> "Open MPI v4.1.4" */
static iso_status describe_library(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    iso_status status = ISO_MPI(MPI_Get_library_version(version, &length));
    version[strcspn(version, ",\n")] = 0;
    snprintf(text, size, "%.*s", (int)size - 1, version);
    return status;
}

iso_status iso_mpi_facts_find(iso_mpi_facts *facts)
{
    int running, provided;
    iso_status status;
    *facts = (iso_mpi_facts){0};
    MPI_Initialized(&running);
    facts->running = running && !iso_mpi_ended();
    describe_headers(facts->compiled, sizeof facts->compiled);
    ISO_TRY(describe_library(facts->library, sizeof facts->library));
    if (facts->running) {
        ISO_TRY(ISO_MPI(MPI_Query_thread(&provided)));
        facts->level = find_level(provided);
    }
done:
    return status;
}

/* ---- settings: variables of MPI's tool interface ---- */

/* Writes the value of a text, a truth value (as 0 or 1) or an int. */
static bool write_value(MPI_T_cvar_handle handle, MPI_Datatype type, int count, char *text, size_t size)
{
    char word[4096] = "";
    int number = 0;
    bool truth = false, is_text = type == MPI_CHAR && count <= (int)sizeof word;
    void *value = is_text                                                   ? (void *)word
                  : count == 1 && type == MPI_C_BOOL                        ? (void *)&truth
                  : count == 1 && (type == MPI_INT || type == MPI_UNSIGNED) ? (void *)&number
                                                                            : NULL;
    if (!value || MPI_T_cvar_read(handle, value) != MPI_SUCCESS)
        return false;
    if (is_text)
        snprintf(text, size, "%.*s", (int)size - 1, word);
    else
        snprintf(text, size, "%d", number + truth);
    return true;
}

static bool read_variable(const char *name, char *text, size_t size)
{
    int index, length = 0, about = 0, verbosity, bind, scope, count;
    MPI_Datatype type;
    MPI_T_enum names;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_get_info(index, NULL, &length, &verbosity, &type, &names, NULL, &about, &bind, &scope) !=
            MPI_SUCCESS ||
        bind != MPI_T_BIND_NO_OBJECT || MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return false;
    bool good = write_value(handle, type, count, text, size);
    MPI_T_cvar_handle_free(&handle);
    return good;
}

bool iso_mpi_setting(const char *name, char *text, size_t size)
{
    int provided;
    if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return false;
    bool good = read_variable(name, text, size);
    MPI_T_finalize();
    return good;
}

/* ---- hosts ---- */

iso_status iso_host_shared_memory(iso_context *ctx, iso_shared_memory *kind)
{
    iso_comm *host = NULL;
    iso_status status = ISO_OK;
    int rank = ctx->channel.rank;
    ISO_TRY(iso_comm_split(ctx->channel.communicator, iso_host_of_rank(ctx, rank), rank, &host));
    ISO_TRY(iso_shared_memory_find(host, kind));
done:
    iso_comm_free(&host);
    return iso_agree(ctx, status);
}

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { ROUNDS = 16, CLOCK_TAG = 1 };

/* Rank 0 asks the lowest rank of another host, which calls answer_clock. result: offset, uncertainty. */
static iso_status ask_clock(MPI_Comm all, int rank, double result[2])
{
    iso_status status = ISO_OK;
    double theirs, least = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        double sent = wall_clock();
        ISO_TRY(ISO_MPI(MPI_Send(&sent, 1, MPI_DOUBLE, rank, CLOCK_TAG, all)));
        ISO_TRY(ISO_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, rank, CLOCK_TAG, all, MPI_STATUS_IGNORE)));
        double came = wall_clock();
        if (came - sent < least) {
            least = came - sent;
            result[0] = theirs - (sent + came) / 2;
            result[1] = least / 2;
        }
    }
done:
    return status;
}

static iso_status answer_clock(MPI_Comm all)
{
    iso_status status = ISO_OK;
    double theirs;
    for (int i = 0; i < ROUNDS; i++) {
        ISO_TRY(ISO_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, CLOCK_TAG, all, MPI_STATUS_IGNORE)));
        double mine = wall_clock();
        ISO_TRY(ISO_MPI(MPI_Send(&mine, 1, MPI_DOUBLE, 0, CLOCK_TAG, all)));
    }
done:
    return status;
}

/* results: [n_hosts][2], filled on rank 0. Returns the first error, but exchanges all messages if MPI can. */
static iso_status compare_clocks(const iso_context *ctx, double (*results)[2])
{
    MPI_Comm all = iso_mpi_of(ctx->channel.communicator);
    int mine = ctx->channel.rank, hosts = 1; /* hosts are numbered in the order of their lowest ranks */
    if (mine > 0)
        return iso_is_host_leader(ctx) && iso_host_of_rank(ctx, mine) > 0 ? answer_clock(all) : ISO_OK;
    iso_status first = ISO_OK;
    for (int rank = 1; rank < ctx->channel.n_ranks; rank++) {
        if (iso_host_of_rank(ctx, rank) != hosts)
            continue;
        iso_status status = ask_clock(all, rank, results[hosts++]);
        first = first == ISO_OK ? status : first;
    }
    return first;
}

iso_status iso_clock_offset(iso_context *ctx, double *offset, double *uncertainty)
{
    int hosts = iso_hosts(ctx), mine = iso_host_of_rank(ctx, iso_rank(ctx));
    double(*results)[2] = iso_new((size_t)hosts * sizeof *results);
    iso_status status = iso_agree(ctx, results ? ISO_OK : iso_no_memory("the clocks of %d hosts", hosts));
    if (status == ISO_OK && hosts > 1)
        status = iso_agree(ctx, compare_clocks(ctx, results));
    if (status == ISO_OK)
        status = iso_broadcast(ctx, results, (size_t)hosts * sizeof *results);
    if (status == ISO_OK) {
        *offset = results[mine][0];
        *uncertainty = results[mine][1];
    }
    iso_free(results);
    return status;
}
