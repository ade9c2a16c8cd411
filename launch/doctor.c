/* isogrid doctor: checks what Isogrid needs from the machines of a job, and says what to change. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/command_line.h"
#include "launch/doctor/doctor_impl.h"
#include "runtime/base/memory.h"
#include "runtime/base/terminal.h"

typedef struct doctor_options {
    const char *folder;
    bool json;
    uint64_t threads;
} doctor_options;

static const iso_argument table[] = {
    {"folder", ISO_ARGUMENT_TEXT, offsetof(doctor_options, folder), "DIR",
     "the folder whose file system is checked, such as that of the checkpoints; default: the current folder",
     0, 0, NULL},
    {"json", ISO_ARGUMENT_FLAG, offsetof(doctor_options, json), NULL,
     "prints a JSON object instead, as docs/doctor.md describes it", 0, 0, NULL},
    {"threads", ISO_ARGUMENT_SESSION, offsetof(doctor_options, threads), NULL, NULL, 0, 0, NULL},
};
enum { ROWS = sizeof table / sizeof table[0] };

static void doctor_help(iso_text *text)
{
    iso_arguments_help(table, ROWS, text);
    iso_text_add(text, "\nThe checks, and what each looks at:\n");
    for (int i = 0; i < iso_doctor_n_checks; i++)
        iso_text_add(text, "  %s\n        %s\n", iso_doctor_checks[i]->name, iso_doctor_checks[i]->looks_at);
    iso_text_add(text, "\nThe exit code is 1 if a check finds an error; warnings do not change it.\n");
}

/* ---- facts of all ranks ---- */

static void describe_rank(iso_doctor_rank_facts *mine)
{
    iso_cores bindable;
    if (gethostname(mine->host, sizeof mine->host) || !*mine->host)
        snprintf(mine->host, sizeof mine->host, "%s", "(no name)");
    mine->host[sizeof mine->host - 1] = 0;
    iso_doctor_read("/proc/sys/kernel/random/boot_id", mine->machine, sizeof mine->machine);
    mine->machine[strcspn(mine->machine, "\n")] = 0;
    if (!iso_cores_find(&mine->mask))
        iso_cores_add(&mine->mask, 0);
    mine->cores = iso_cores_find_bindable(&bindable) ? iso_cores_count(&bindable) : 1;
}

static void doctor_free(iso_doctor *doctor)
{
    iso_free(doctor->facts);
    iso_free(doctor->lowest);
}

/* Collective. */
static iso_status gather_facts(iso_doctor *doctor)
{
    int ranks = iso_ranks(doctor->ctx), hosts = iso_hosts(doctor->ctx);
    iso_doctor_rank_facts mine = {.cores = 0};
    describe_rank(&mine);
    doctor->facts = iso_new((size_t)ranks * sizeof *doctor->facts);
    doctor->lowest = iso_new((size_t)hosts * sizeof *doctor->lowest);
    iso_status status;
    ISO_TRY(iso_agree(doctor->ctx, doctor->facts && doctor->lowest
                                       ? iso_mpi_facts_find(&doctor->mpi)
                                       : iso_no_memory("the facts of %d ranks", ranks)));
    ISO_TRY(iso_gather_all(doctor->ctx, &mine, sizeof mine, doctor->facts));
    for (int rank = ranks - 1; rank >= 0; rank--)
        doctor->lowest[iso_host_of_rank(doctor->ctx, rank)] = rank;
done:
    return status;
}

/* ---- output, by the chief ---- */

/* "; not checked: clocks (all ranks are on one host), ..." */
static void add_not_checked(const iso_doctor_result *results, iso_text *text)
{
    int count = 0;
    for (int i = 0; i < iso_doctor_n_checks; i++)
        if (results[i].n_groups == 0)
            iso_text_add(text, "%s%s (%s)", count++ ? ", " : "\nnot checked: ", results[i].check->name,
                         results[i].findings[0].text);
    iso_text_add(text, "\n");
}

static void count_levels(const iso_doctor_result *results, int counts[3])
{
    for (int i = 0; i < iso_doctor_n_checks; i++)
        counts[results[i].level] += results[i].n_groups > 0;
}

static iso_status print_text(iso_text *text)
{
    iso_status status = text->failed ? iso_no_memory("what the doctor found") : ISO_OK;
    if (status == ISO_OK) {
        fputs(iso_text_get(text), stdout);
        fflush(stdout); /* a check may take long: what is known is seen */
    }
    iso_text_free(text);
    return status;
}

static iso_status print_head(const iso_doctor *doctor)
{
    iso_text text = {0};
    int ranks = iso_ranks(doctor->ctx), hosts = iso_hosts(doctor->ctx);
    iso_text_add(&text, "isogrid %s (build %s): %d rank%s on %d host%s; folder '%s'\n", iso_version(),
                 iso_build_id(), ranks, ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", doctor->folder);
    return print_text(&text);
}

static iso_status print_result(const iso_doctor *doctor, const iso_doctor_result *result)
{
    iso_text text = {0};
    iso_doctor_add_lines(doctor, result, iso_wants_colors(stdout), &text);
    return print_text(&text);
}

static iso_status print_end(const iso_doctor *doctor, const iso_doctor_result *results, bool json)
{
    iso_text text = {0};
    int counts[3] = {0};
    iso_status status = ISO_OK;
    count_levels(results, counts);
    if (json)
        status = iso_doctor_add_json(doctor, results, iso_doctor_n_checks, &text);
    else {
        iso_text_add(&text, "%d ok, %d warning%s, %d error%s", counts[ISO_DOCTOR_OK],
                     counts[ISO_DOCTOR_WARNING], counts[ISO_DOCTOR_WARNING] == 1 ? "" : "s",
                     counts[ISO_DOCTOR_ERROR], counts[ISO_DOCTOR_ERROR] == 1 ? "" : "s");
        add_not_checked(results, &text);
    }
    iso_status printed = print_text(&text);
    return status == ISO_OK ? printed : status;
}

/* ---- the command ---- */

/* Returns, on every rank, ISO_FAILED with the names of the checks that found errors. */
static iso_status judge(const iso_doctor_result *results)
{
    iso_text names = {0};
    for (int i = 0; i < iso_doctor_n_checks; i++)
        if (results[i].level == ISO_DOCTOR_ERROR)
            iso_text_add(&names, "%s%s", names.length ? ", " : "", results[i].check->name);
    iso_status status = names.length
                            ? iso_error(ISO_FAILED, "doctor: errors were found by: %s", iso_text_get(&names))
                            : ISO_OK;
    iso_text_free(&names);
    return status;
}

/* Collective. */
static iso_status examine(const iso_doctor *doctor, bool json, iso_doctor_result *results)
{
    bool chief = iso_is_chief(doctor->ctx);
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(doctor->ctx, chief && !json ? print_head(doctor) : ISO_OK));
    for (int i = 0; i < iso_doctor_n_checks; i++) {
        ISO_TRY(iso_doctor_run_check(doctor, iso_doctor_checks[i], &results[i]));
        ISO_TRY(iso_agree(doctor->ctx, chief && !json ? print_result(doctor, &results[i]) : ISO_OK));
    }
    ISO_TRY(iso_agree(doctor->ctx, chief ? print_end(doctor, results, json) : ISO_OK));
    status = judge(results);
done:
    return status;
}

static iso_status doctor_run(iso_context *ctx, int argc, char *const *argv)
{
    doctor_options options = {.folder = "."};
    iso_doctor doctor = {.ctx = ctx};
    iso_doctor_result *results = NULL;
    iso_status status;
    ISO_TRY(iso_arguments_parse(table, ROWS, argc, argv, &options));
    doctor.folder = options.folder;
    results = iso_new((size_t)iso_doctor_n_checks * sizeof *results);
    ISO_TRY(iso_agree(ctx, results ? ISO_OK : iso_no_memory("%d checks", iso_doctor_n_checks)));
    ISO_TRY(gather_facts(&doctor));
    ISO_TRY(examine(&doctor, options.json, results));
done:
    for (int i = 0; results && i < iso_doctor_n_checks; i++)
        iso_doctor_result_free(&results[i]);
    iso_free(results);
    doctor_free(&doctor);
    return status;
}

const iso_command iso_command_doctor = {
    "doctor", "[OPTION...]", "checks MPI, hosts, libraries and file system, and says what to change",
    .run = doctor_run, .help = doctor_help};
