/* Learning-rate schedules as text. */
#include <stdio.h>
#include <string.h>

#include "launch/options.h"

/* A number of a schedule: a name, and where it goes (one of the two). */
typedef struct setting {
    const char *name;
    double *real;
    int64_t *count;
    bool *flag;
    bool given;
} setting;

enum { LONGEST = 64 };

/* Takes "name=value" off the front of *rest. */
static iso_status take(const char *whole, const char **rest, char *name, char *value)
{
    size_t length = strcspn(*rest, ",");
    const char *equals = memchr(*rest, '=', length);
    size_t before = equals ? (size_t)(equals - *rest) : 0;
    if (!before || before >= LONGEST || length - before - 1 >= LONGEST)
        return iso_error(ISO_INVALID, "--schedule '%s': '%.*s' should be name=number", whole, (int)length,
                         *rest);
    memcpy(name, *rest, before);
    name[before] = '\0';
    memcpy(value, equals + 1, length - before - 1);
    value[length - before - 1] = '\0';
    *rest += length;
    *rest += **rest == ',';
    return ISO_OK;
}

static iso_status set(const char *whole, setting *settings, int count, const char *name, const char *value)
{
    const char *names[8];
    char what[2 * LONGEST];
    snprintf(what, sizeof what, "--schedule: %s", name);
    for (int i = 0; i < count; i++) {
        setting *s = &settings[i];
        names[i] = s->name;
        if (strcmp(s->name, name) != 0)
            continue;
        int64_t number = 0;
        iso_status status = s->real    ? iso_argument_real(what, value, 0, 1e9, s->real)
                            : s->count ? iso_argument_count(what, value, 0, 0x1p40, s->count)
                                       : iso_argument_count(what, value, 0, 1, &number);
        if (s->flag)
            *s->flag = number != 0;
        s->given = true;
        return status;
    }
    iso_text near = {0};
    iso_text_add_nearest(&near, name, names, count);
    iso_status status =
        iso_error(ISO_INVALID, "--schedule '%s': unknown '%s'%s", whole, name, iso_text_get(&near));
    iso_text_free(&near);
    return status;
}

/* Reads "name=value,..." into settings, of which the first `needed` must be given. */
static iso_status read_settings(const char *whole, const char *rest, setting *settings, int count, int needed)
{
    char name[LONGEST], value[LONGEST];
    iso_status status = ISO_OK;
    while (*rest && status == ISO_OK) {
        status = take(whole, &rest, name, value);
        if (status == ISO_OK)
            status = set(whole, settings, count, name, value);
    }
    for (int i = 0; i < needed && status == ISO_OK; i++) {
        if (!settings[i].given)
            status = iso_error(ISO_INVALID, "--schedule '%s': needs %s", whole, settings[i].name);
    }
    return status;
}

static iso_status read_exponential(const char *whole, const char *rest, iso_schedule *schedule)
{
    setting settings[] = {{.name = "decay_steps", .count = &schedule->decay_steps},
                          {.name = "decay_rate", .real = &schedule->rate},
                          {.name = "staircase", .flag = &schedule->staircase}};
    schedule->kind = ISO_SCHEDULE_EXPONENTIAL;
    return read_settings(whole, rest, settings, 3, 2);
}

static iso_status read_cosine(const char *whole, const char *rest, iso_schedule *schedule)
{
    setting settings[] = {{.name = "decay_steps", .count = &schedule->decay_steps},
                          {.name = "alpha", .real = &schedule->alpha},
                          {.name = "warmup_steps", .count = &schedule->warmup_steps},
                          {.name = "warmup_target", .real = &schedule->warmup_target}};
    schedule->kind = ISO_SCHEDULE_COSINE;
    return read_settings(whole, rest, settings, 4, 1);
}

static iso_status read_piecewise(const char *whole, const char *rest, iso_schedule *schedule)
{
    char boundary[LONGEST], value[LONGEST];
    iso_status status = ISO_OK;
    schedule->kind = ISO_SCHEDULE_PIECEWISE;
    while (*rest) {
        int n = schedule->boundaries;
        if (n == ISO_MAX_PIECES)
            return iso_error(ISO_INVALID, "--schedule '%s': more than %d boundaries", whole, ISO_MAX_PIECES);
        ISO_TRY(take(whole, &rest, boundary, value));
        ISO_TRY(iso_argument_count("--schedule: boundary", boundary, 0, 0x1p40, &schedule->boundary[n]));
        ISO_TRY(iso_argument_real("--schedule: rate", value, 0, 1e9, &schedule->value[n + 1]));
        if (n && schedule->boundary[n] <= schedule->boundary[n - 1])
            return iso_error(ISO_INVALID, "--schedule '%s': boundary %s does not come after the one before",
                             whole, boundary);
        schedule->boundaries++;
    }
    if (!schedule->boundaries)
        return iso_error(ISO_INVALID, "--schedule '%s': needs a boundary, such as 1000=0.01", whole);
done:
    return status;
}

iso_status iso_schedule_parse(const char *text, iso_schedule *schedule)
{
    static const char *const names[] = {"constant", "exponential", "cosine", "piecewise"};
    iso_schedule read = {0};
    iso_status status;
    size_t length = strcspn(text, ":");
    const char *rest = text + length + (text[length] == ':');
    char kind[LONGEST];
    snprintf(kind, sizeof kind, "%.*s", (int)(length < LONGEST ? length : LONGEST - 1), text);
    if (!strcmp(kind, "constant") && !*rest) {
        status = ISO_OK;
    } else if (!strcmp(kind, "exponential")) {
        status = read_exponential(text, rest, &read);
    } else if (!strcmp(kind, "cosine")) {
        status = read_cosine(text, rest, &read);
    } else if (!strcmp(kind, "piecewise")) {
        status = read_piecewise(text, rest, &read);
    } else {
        iso_text near = {0};
        iso_text_add_nearest(&near, kind, names, 4);
        status = iso_error(ISO_INVALID, "--schedule '%s': unknown schedule%s", text, iso_text_get(&near));
        iso_text_free(&near);
    }
    if (status == ISO_OK)
        *schedule = read;
    return status;
}
