/* The findings of the ranks: gathered, and grouped by outcome. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/doctor/doctor_impl.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"

iso_status iso_doctor_find(iso_doctor_finding *finding, int outcome, double badness, const char *format, ...)
{
    char text[sizeof finding->text];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    /* Names of folders and hosts must not control a terminal. */
    iso_text_printable(text, finding->text, sizeof finding->text);
    finding->outcome = outcome;
    finding->badness = badness;
    return ISO_OK;
}

/* Whether this rank runs the check. */
static bool takes_part(const iso_doctor *doctor, const iso_doctor_check *check)
{
    return check->collective || check->scope == ISO_DOCTOR_RANKS ||
           (check->scope == ISO_DOCTOR_HOSTS ? iso_doctor_is_lowest(doctor) : iso_is_chief(doctor->ctx));
}

/* The findings of the ranks that count become those of the ranks that they stand for. */
static void spread(const iso_doctor *doctor, iso_doctor_result *result)
{
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++) {
        int from = result->check->scope == ISO_DOCTOR_RANKS ? rank
                   : result->check->scope == ISO_DOCTOR_HOSTS
                       ? doctor->lowest[iso_host_of_rank(doctor->ctx, rank)]
                       : 0;
        result->findings[rank] = result->findings[from];
    }
}

static iso_doctor_severity level_of(const iso_doctor_result *result, const iso_doctor_finding *finding)
{
    return result->check->outcomes[finding->outcome].level;
}

/* Hosts that are expected to be alike, and are not. */
static void compare(const iso_doctor *doctor, iso_doctor_result *result)
{
    const iso_doctor_finding *first = NULL;
    bool alike = true;
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++) {
        const iso_doctor_finding *finding = &result->findings[rank];
        if (finding->outcome < 0 || level_of(result, finding) != ISO_DOCTOR_OK)
            continue;
        first = first ? first : finding;
        alike = alike && strcmp(first->text, finding->text) == 0;
    }
    for (int rank = 0; rank < iso_ranks(doctor->ctx) && !alike; rank++) {
        iso_doctor_finding *finding = &result->findings[rank];
        if (finding->outcome >= 0 && level_of(result, finding) == ISO_DOCTOR_OK)
            finding->outcome = result->check->differs;
    }
}

static bool belongs(const iso_doctor_result *result, const iso_doctor_group *group,
                    const iso_doctor_finding *finding)
{
    bool differs = result->check->differs > 0 && finding->outcome == result->check->differs;
    return group->outcome == finding->outcome &&
           (!differs || strcmp(result->findings[group->shown].text, finding->text) == 0);
}

static iso_status put_into_group(iso_doctor_result *result, int rank)
{
    const iso_doctor_finding *finding = &result->findings[rank];
    int at = 0;
    while (at < result->n_groups && !belongs(result, &result->groups[at], finding))
        at++;
    iso_doctor_group fresh = {.outcome = finding->outcome, .shown = rank};
    iso_status status = at < result->n_groups
                            ? ISO_OK
                            : iso_list_add(result->groups, result->n_groups, fresh, "what ranks found");
    if (status != ISO_OK)
        return status;
    iso_doctor_group *group = &result->groups[at];
    group->varies = group->varies || strcmp(finding->text, result->findings[group->shown].text) != 0;
    if (finding->badness > result->findings[group->shown].badness)
        group->shown = rank;
    group->n_ranks++;
    result->group_of_rank[rank] = at;
    return ISO_OK;
}

/* The number of hosts that have a rank in the group. */
static int count_hosts(const iso_doctor *doctor, const iso_doctor_result *result, int group)
{
    int hosts = 0;
    for (int host = 0; host < iso_hosts(doctor->ctx); host++)
        hosts += iso_doctor_host_ranks(doctor, result, group, host) > 0;
    return hosts;
}

static iso_status make_groups(const iso_doctor *doctor, iso_doctor_result *result)
{
    iso_status status = ISO_OK;
    int ranks = iso_ranks(doctor->ctx);
    if (result->check->differs > 0)
        compare(doctor, result);
    for (int rank = 0; rank < ranks; rank++)
        result->group_of_rank[rank] = -1;
    for (int level = ISO_DOCTOR_ERROR; level >= ISO_DOCTOR_OK; level--)
        for (int rank = 0; rank < ranks && status == ISO_OK; rank++)
            if (result->findings[rank].outcome >= 0 &&
                level_of(result, &result->findings[rank]) == (iso_doctor_severity)level)
                status = put_into_group(result, rank);
    if (status != ISO_OK)
        return status;
    for (int g = 0; g < result->n_groups; g++)
        result->groups[g].n_hosts = count_hosts(doctor, result, g);
    if (result->n_groups)
        result->level = result->check->outcomes[result->groups[0].outcome].level;
    return ISO_OK;
}

iso_status iso_doctor_run_check(const iso_doctor *doctor, const iso_doctor_check *check,
                                iso_doctor_result *result)
{
    int ranks = iso_ranks(doctor->ctx);
    iso_doctor_finding mine = {.outcome = ISO_DOCTOR_NOT_CHECKED};
    iso_status status;
    result->check = check;
    result->findings = iso_new((size_t)ranks * sizeof *result->findings);
    result->group_of_rank = iso_new((size_t)ranks * sizeof *result->group_of_rank);
    ISO_TRY(iso_agree(doctor->ctx, result->findings && result->group_of_rank
                                       ? ISO_OK
                                       : iso_no_memory("what %d ranks found", ranks)));
    ISO_TRY(iso_agree(doctor->ctx, takes_part(doctor, check) ? check->run(doctor, &mine) : ISO_OK));
    ISO_TRY(iso_gather_all(doctor->ctx, &mine, sizeof mine, result->findings));
    spread(doctor, result);
    ISO_TRY(iso_agree(doctor->ctx, make_groups(doctor, result)));
done:
    return status;
}

void iso_doctor_result_free(iso_doctor_result *result)
{
    iso_free(result->findings);
    iso_free(result->group_of_rank);
    iso_free(result->groups);
}
