/* isogrid doctor: checks of what Isogrid needs from a machine.
 *
 * A check is a file of this folder and a line in list.c. It runs on every rank, or on one rank of each host,
 * and each of them finds one outcome of the check's table and a fact as text. The chief prints one line for
 * each outcome, and names hosts or ranks where they differ. */
#ifndef ISO_LAUNCH_DOCTOR_IMPL_H
#define ISO_LAUNCH_DOCTOR_IMPL_H

#include "runtime/base/cores.h"
#include "runtime/base/host.h"
#include "runtime/base/text.h"
#include "runtime/session/facts.h"

typedef enum iso_doctor_severity { ISO_DOCTOR_OK, ISO_DOCTOR_WARNING, ISO_DOCTOR_ERROR } iso_doctor_severity;

/* One of the things that a check may find. docs/doctor.md has a row for each. */
typedef struct iso_doctor_outcome {
    const char *code; /* for programs that read the JSON; it does not change */
    iso_doctor_severity level;
    const char *advice; /* what to change; NULL if there is nothing */
} iso_doctor_outcome;

enum { ISO_DOCTOR_NOT_CHECKED = -1, ISO_DOCTOR_TEXT = 400 };

typedef struct iso_doctor_finding {
    int outcome;    /* index in the check's table, or ISO_DOCTOR_NOT_CHECKED */
    double badness; /* of several ranks with one outcome, the text of the one with the highest is shown */
    char text[ISO_DOCTOR_TEXT]; /* the fact, or the reason why it was not checked */
} iso_doctor_finding;

/* What every rank knows of each rank. */
typedef struct iso_doctor_rank_facts {
    char host[ISO_HOST_NAME]; /* the host's name */
    char machine[40]; /* the kernel's boot id: the same on all ranks of a machine, in containers too */
    int cores;        /* of the machine, or of the container or job on it */
    iso_cores mask;   /* the cores that the rank may use */
} iso_doctor_rank_facts;

typedef struct iso_doctor {
    iso_context *ctx;
    const char *folder;
    iso_mpi_facts mpi;
    iso_doctor_rank_facts *facts; /* [ranks] */
    int *lowest;                  /* [hosts]: the lowest rank of each host */
} iso_doctor;

/* The ranks whose findings count: all of them, the lowest rank of each host, or the chief. The others' findings
 * are ignored. */
typedef enum iso_doctor_scope { ISO_DOCTOR_RANKS, ISO_DOCTOR_HOSTS, ISO_DOCTOR_JOB } iso_doctor_scope;

typedef struct iso_doctor_check {
    const char *name;
    const char *looks_at; /* one line for the help */
    iso_doctor_scope scope;
    /* If above 0: hosts with an `ok` are expected to have the same text; otherwise they have this outcome. */
    int differs;
    const iso_doctor_outcome *outcomes;
    int n_outcomes;
    /* Fills in the finding (zeroed before). Runs on every rank if `collective`, else only on those that count.
     * An error ends the doctor: something that a check finds wrong is a finding. */
    iso_status (*run)(const iso_doctor *doctor, iso_doctor_finding *finding);
    bool collective;
} iso_doctor_check;

extern const iso_doctor_check *const iso_doctor_checks[];
extern const int iso_doctor_n_checks;

/* The common part of a check: its table. */
#define ISO_DOCTOR_OUTCOMES(table) .outcomes = (table), .n_outcomes = sizeof(table) / sizeof *(table)

/* Fills in the finding; returns ISO_OK. */
iso_status iso_doctor_find(iso_doctor_finding *finding, int outcome, double badness, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- facts ---- */

/* The index of this rank's host, and whether this rank is its lowest rank. */
int iso_doctor_host(const iso_doctor *doctor);
bool iso_doctor_is_lowest(const iso_doctor *doctor);
const char *iso_doctor_host_name(const iso_doctor *doctor, int host);
/* The number of cores that the ranks of a host may use, all together. counts[ISO_MAX_CORES]: how many of the ranks
 * may use each core. */
int iso_doctor_host_cores(const iso_doctor *doctor, int host, int *counts);
/* The value of a variable of the environment that is set and not empty; NULL otherwise. */
const char *iso_doctor_variable(const char *name);
/* Reads the beginning of a file; "" if it cannot be read. */
void iso_doctor_read(const char *path, char *text, size_t size);
/* "0.5 s", "12 ms", "30 us" */
char *iso_doctor_seconds(double seconds, char *text, size_t size);
/* "15.6 GiB" */
char *iso_doctor_bytes(double bytes, char *text, size_t size);

/* ---- a file in the folder that is checked ---- */

/* A free name in the folder for a file of this process; freed with iso_free. */
char *iso_doctor_probe_path(const iso_doctor *doctor, const char *what);
/* The chief makes an empty file that other hosts may look at: *path, which each rank frees with iso_free, and
 * *file on the chief, -1 elsewhere. *path is NULL on all ranks if the chief cannot make it. Collective. */
iso_status iso_doctor_probe_create(const iso_doctor *doctor, const char *what, char **path, int *file);
/* Waits for all ranks; then the chief removes the file. Collective. */
iso_status iso_doctor_probe_destroy(const iso_doctor *doctor, char *path, int file);

/* ---- what the ranks found ---- */

/* Ranks with the same outcome. */
typedef struct iso_doctor_group {
    int outcome, shown; /* shown: the rank whose text is shown */
    int n_ranks, n_hosts;
    bool varies; /* their texts differ */
} iso_doctor_group;

typedef struct iso_doctor_result {
    const iso_doctor_check *check;
    iso_doctor_finding *findings; /* [ranks] */
    int *group_of_rank;           /* [ranks]; -1: not checked there */
    iso_doctor_group *groups;     /* [n_groups], the worst first, then by the lowest rank */
    int n_groups;                 /* 0: not checked */
    iso_doctor_severity level;    /* the worst of all */
} iso_doctor_result;

/* Runs a check and gathers what the ranks found. Collective. */
iso_status iso_doctor_run_check(const iso_doctor *doctor, const iso_doctor_check *check,
                                iso_doctor_result *result);
void iso_doctor_result_free(iso_doctor_result *result);

/* The number of ranks of a host that are in a group (-1: in any or none). */
int iso_doctor_host_ranks(const iso_doctor *doctor, const iso_doctor_result *result, int group, int host);

const char *iso_doctor_severity_name(iso_doctor_severity level);
/* Adds the lines of a result; nothing if it was not checked. */
void iso_doctor_add_lines(const iso_doctor *doctor, const iso_doctor_result *result, bool colors,
                          iso_text *text);
/* All results as a JSON object. */
iso_status iso_doctor_add_json(const iso_doctor *doctor, const iso_doctor_result *results, int count,
                               iso_text *text);

#endif
