/* All results as a JSON object; docs/doctor.md describes it. */
#include "launch/doctor/doctor_impl.h"
#include "runtime/base/build.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"

/* Names of hosts and folders need not be UTF-8: then their bytes from 128 up are replaced. */
static json_t *make_text(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    if (value)
        return value;
    char *copy = iso_strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 128)
            *c = '?';
    value = copy ? json_string(copy) : NULL;
    iso_free(copy);
    return value;
}

/* The ranks of a group on a host, or (group -1) all ranks of the host. host -1: all hosts. */
static json_t *make_ranks(const iso_doctor *doctor, const iso_doctor_result *result, int group, int host)
{
    json_t *all = json_array();
    for (int rank = 0; rank < iso_ranks(doctor->ctx); rank++)
        if ((host < 0 || iso_host_of_rank(doctor->ctx, rank) == host) &&
            (group < 0 || result->group_of_rank[rank] == group))
            json_array_append_new(all, json_integer(rank));
    return all;
}

static json_t *make_hosts(const iso_doctor *doctor)
{
    json_t *all = json_array();
    for (int host = 0; host < iso_hosts(doctor->ctx); host++)
        json_array_append_new(all, json_pack("{s:o, s:i, s:o}", "name",
                                             make_text(iso_doctor_host_name(doctor, host)), "cores",
                                             doctor->facts[doctor->lowest[host]].cores, "ranks",
                                             make_ranks(doctor, NULL, -1, host)));
    return all;
}

static json_t *make_finding(const iso_doctor *doctor, const iso_doctor_result *result, int group)
{
    const iso_doctor_outcome *outcome = &result->check->outcomes[result->groups[group].outcome];
    json_t *hosts = json_array();
    for (int host = 0; host < iso_hosts(doctor->ctx); host++)
        if (iso_doctor_host_ranks(doctor, result, group, host) > 0)
            json_array_append_new(hosts, make_text(iso_doctor_host_name(doctor, host)));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "code", outcome->code, "level",
                     iso_doctor_severity_name(outcome->level), "text",
                     make_text(result->findings[result->groups[group].shown].text), "advice",
                     make_text(outcome->advice), "hosts", hosts, "ranks",
                     make_ranks(doctor, result, group, -1));
}

static json_t *make_check(const iso_doctor *doctor, const iso_doctor_result *result)
{
    json_t *findings = json_array();
    bool checked = result->n_groups > 0;
    for (int group = 0; group < result->n_groups; group++)
        json_array_append_new(findings, make_finding(doctor, result, group));
    return json_pack("{s:s, s:s, s:o, s:o}", "name", result->check->name, "level",
                     checked ? iso_doctor_severity_name(result->level) : "not checked", "reason",
                     checked ? json_null() : make_text(result->findings[0].text), "findings", findings);
}

static json_t *make_checks(const iso_doctor *doctor, const iso_doctor_result *results, int count,
                           iso_doctor_severity *worst)
{
    json_t *checks = json_array();
    *worst = ISO_DOCTOR_OK;
    for (int i = 0; i < count; i++) {
        json_array_append_new(checks, make_check(doctor, &results[i]));
        *worst = results[i].level > *worst ? results[i].level : *worst;
    }
    return checks;
}

iso_status iso_doctor_add_json(const iso_doctor *doctor, const iso_doctor_result *results, int count,
                               iso_text *text)
{
    iso_doctor_severity worst;
    json_t *checks = make_checks(doctor, results, count, &worst);
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:o, s:i, s:o, s:o}", "version", 1, "isogrid",
                             iso_version(), "build", iso_build_id(), "level", iso_doctor_severity_name(worst),
                             "folder", make_text(doctor->folder), "ranks", iso_ranks(doctor->ctx), "hosts",
                             make_hosts(doctor), "checks", checks);
    iso_json_add(text, root, JSON_INDENT(2)); /* frees root */
    iso_text_add(text, "\n");
    return text->failed ? iso_no_memory("what the doctor found as JSON") : ISO_OK;
}
