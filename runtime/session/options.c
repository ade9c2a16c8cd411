/* The options that every program with Isogrid in it understands. A new one is a line in the table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/session/session_impl.h"

/* Each checks the text of a value and may put it into the context; false: it is wrong. */
static bool take_text(iso_context *ctx, const char *text)
{
    (void)ctx;
    return *text != 0;
}

static bool read_integer(const char *text, uint64_t most, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || number > most)
        return false;
    *value = number;
    return true;
}

static bool take_seed(iso_context *ctx, const char *text)
{
    return read_integer(text, UINT64_MAX, &ctx->seed);
}

static bool take_threads(iso_context *ctx, const char *text)
{
    uint64_t threads;
    if (!read_integer(text, 4096, &threads) || threads == 0)
        return false;
    ctx->n_threads = (int)threads;
    return true;
}

static bool take_verbose(iso_context *ctx, const char *text)
{
    uint64_t level;
    (void)ctx;
    return read_integer(text, 2, &level);
}

static const struct option {
    const char *name;
    bool (*take)(iso_context *ctx, const char *text);
    bool same; /* on all ranks */
    const char *wants;
} table[] = {
    {"mesh", take_text, true, "named axes, as in data=2,model=4"},
    {"devices", take_text, true, "the rank of each slot of the mesh, as in 0,1,2,3 or 0-3,0-3 or 0x4,1x4"},
    {"seed", take_seed, true, "an integer from 0 to 18446744073709551615"},
    {"threads", take_threads, false, "an integer from 1 to 4096"},
    {"verbose", take_verbose, false, "0, 1 or 2"},
};
enum { OPTIONS = sizeof table / sizeof *table };

/* The option that an argument names; *value: what follows its '=', NULL where nothing does. */
static const struct option *find_option(const char *argument, const char **value)
{
    if (strncmp(argument, "--", 2))
        return NULL;
    const char *name = argument + 2, *equal = strchr(name, '=');
    size_t length = equal ? (size_t)(equal - name) : strlen(name);
    *value = equal ? equal + 1 : NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(table[i].name) == length && !strncmp(name, table[i].name, length))
            return &table[i];
    return NULL;
}

static iso_status options_keep(iso_context *ctx, const struct option *option, const char *text)
{
    if (!option->take(ctx, text))
        return iso_error(ISO_INVALID, "--%s '%s': it must be %s", option->name, text, option->wants);
    char *copy = iso_strdup(text);
    if (!copy)
        return iso_error(ISO_NO_MEMORY, "no memory for the option --%s", option->name);
    int at = 0;
    while (at < ctx->n_options && strcmp(ctx->options[at].name, option->name))
        at++;
    iso_free(ctx->options[at].value); /* given twice: the last counts */
    ctx->options[at] = (iso_option_value){option->name, copy};
    if (at == ctx->n_options)
        ctx->n_options++;
    return ISO_OK;
}

/* Takes the option at argv[*at], if it is ours, and steps over it. */
static iso_status take_at(iso_context *ctx, int argc, char **argv, int *at, bool *taken)
{
    const char *value;
    const struct option *option = find_option(argv[*at], &value);
    *taken = option != NULL;
    if (!option)
        return ISO_OK;
    ++*at;
    if (!value) {
        if (*at >= argc || !strncmp(argv[*at], "--", 2))
            return iso_error(ISO_INVALID, "--%s needs a value: %s", option->name, option->wants);
        value = argv[(*at)++];
    }
    return options_keep(ctx, option, value);
}

static iso_status take_arguments(iso_context *ctx, int *argc, char **argv)
{
    iso_status status = ISO_OK;
    int left = 1, at = 1;
    while (status == ISO_OK && at < *argc && strcmp(argv[at], "--")) {
        bool taken;
        status = take_at(ctx, *argc, argv, &at, &taken);
        if (!taken)
            argv[left++] = argv[at++];
    }
    while (at < *argc)
        argv[left++] = argv[at++];
    if (left < *argc)
        argv[left] = NULL;
    *argc = *argc < left ? *argc : left;
    return status;
}

iso_status iso_options_take(iso_context *ctx, int *argc, char ***argv)
{
    ctx->options = iso_new(OPTIONS * sizeof *ctx->options);
    if (!ctx->options)
        return iso_error(ISO_NO_MEMORY, "no memory for the options");
    const char *threads = getenv("ISOGRID_THREADS");
    if (threads && *threads && !take_threads(ctx, threads))
        return iso_error(ISO_INVALID, "ISOGRID_THREADS is '%s': it must be an integer from 1 to 4096",
                         threads);
    return argc && argv && *argv ? take_arguments(ctx, argc, *argv) : ISO_OK;
}

void iso_options_describe(const iso_context *ctx, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (int i = 0; i < OPTIONS; i++) {
        const char *value = table[i].same ? iso_option(ctx, table[i].name, NULL) : NULL;
        if (value && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s--%s %s", length ? " " : "",
                                       table[i].name, value);
    }
}

void iso_options_free(iso_context *ctx)
{
    for (int i = 0; i < ctx->n_options; i++)
        iso_free(ctx->options[i].value);
    iso_free(ctx->options);
}

const char *iso_option(const iso_context *ctx, const char *name, const char *fallback)
{
    if (ISO_ANY_NULL(name))
        return fallback;
    for (int i = 0; ctx && i < ctx->n_options; i++)
        if (!strcmp(ctx->options[i].name, name))
            return ctx->options[i].value;
    return fallback;
}
