/* The result of a check as lines of text. */
#include "launch/doctor/doctor_impl.h"

#include <string.h>

int iso_doctor_host_ranks(const iso_doctor *doctor, const iso_doctor_result *result, int group, int host)
{
    int ranks = 0;
    for (int rank = doctor->lowest[host]; rank < iso_ranks(doctor->ctx); rank++)
        ranks += iso_host_of_rank(doctor->ctx, rank) == host &&
                 (group < 0 || result->group_of_rank[rank] == group);
    return ranks;
}

const char *iso_doctor_severity_name(iso_doctor_severity level)
{
    static const char *const names[] = {"ok", "warning", "error"};
    return names[level];
}

/* Whether each host has all its ranks in the group, or none. */
static bool has_whole_hosts(const iso_doctor *doctor, const iso_doctor_result *result, int group)
{
    for (int host = 0; host < iso_hosts(doctor->ctx); host++) {
        int inside = iso_doctor_host_ranks(doctor, result, group, host);
        if (inside > 0 && inside < iso_doctor_host_ranks(doctor, result, -1, host))
            return false;
    }
    return true;
}

enum { SHOWN = 8 };

/* "h1, h3", "h1, ..., (60 hosts)" */
static void add_hosts(const iso_doctor *doctor, const iso_doctor_result *result, int group, iso_text *text)
{
    int n = 0;
    for (int host = 0; host < iso_hosts(doctor->ctx); host++)
        if (iso_doctor_host_ranks(doctor, result, group, host) > 0 && n++ < SHOWN)
            iso_text_add(text, "%s%s", n > 1 ? ", " : "", iso_doctor_host_name(doctor, host));
    if (n > SHOWN)
        iso_text_add(text, ", ... (%d hosts)", n);
}

/* "ranks 0-3, 7" */
static void add_ranks(const iso_doctor *doctor, const iso_doctor_result *result, int group, iso_text *text)
{
    int n = 0, ranks = iso_ranks(doctor->ctx);
    iso_text_add(text, "rank%s ", result->groups[group].n_ranks > 1 ? "s" : "");
    for (int first = 0, end; first < ranks; first = end) {
        end = first + 1;
        if (result->group_of_rank[first] != group)
            continue;
        while (end < ranks && result->group_of_rank[end] == group)
            end++;
        if (n++ >= SHOWN)
            continue;
        iso_text_add(text, end - first > 1 ? "%s%d-%d" : "%s%d", n > 1 ? ", " : "", first, end - 1);
    }
    if (n > SHOWN)
        iso_text_add(text, ", ... (%d ranks)", result->groups[group].n_ranks);
}

/* Adds the hosts or ranks of the finding, unless it concerns all ranks: "h2: ", "rank 3 (h2): ". */
static void add_where(const iso_doctor *doctor, const iso_doctor_result *result, int group, iso_text *text)
{
    if (result->groups[group].n_ranks == iso_ranks(doctor->ctx))
        return;
    bool whole = has_whole_hosts(doctor, result, group);
    if (!whole)
        add_ranks(doctor, result, group, text);
    iso_text_add(text, "%s", whole ? "" : " (");
    add_hosts(doctor, result, group, text);
    iso_text_add(text, "%s: ", whole ? "" : ")");
}

static void add_fact(const iso_doctor_result *result, const iso_doctor_group *group, iso_text *text)
{
    bool hosts = result->check->scope == ISO_DOCTOR_HOSTS;
    iso_text_add(text, "%s", result->findings[group->shown].text);
    if (group->varies)
        iso_text_add(text, " (the worst of %d %s)", hosts ? group->n_hosts : group->n_ranks,
                     hosts ? "hosts" : "ranks");
    iso_text_add(text, "\n");
}

void iso_doctor_add_lines(const iso_doctor *doctor, const iso_doctor_result *result, bool colors,
                          iso_text *text)
{
    static const char *const begin[] = {"\033[32m", "\033[33m", "\033[31m"};
    for (int i = 0; i < result->n_groups; i++) {
        const iso_doctor_outcome *outcome = &result->check->outcomes[result->groups[i].outcome];
        iso_text_add(text, "%s%-7s%s  %-14s ", colors ? begin[outcome->level] : "",
                     iso_doctor_severity_name(outcome->level), colors ? "\033[0m" : "", result->check->name);
        add_where(doctor, result, i, text);
        add_fact(result, &result->groups[i], text);
        if (outcome->advice)
            iso_text_add(text, "%24s-> %s\n", "", outcome->advice);
    }
}
