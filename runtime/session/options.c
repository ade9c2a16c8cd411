/* The options of every Isogrid program. A new option is a row of the table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"
#include "runtime/session/options.h"
#include "runtime/session/session_impl.h"

static const char backends[] = "auto"
#define BACKEND(name) "|" #name
#include "runtime/backend/list.h"
    ;
static const char *const collectives[] = {"auto", "mpi", "nccl", NULL};

static const iso_session_option options[] = {
    {"mesh", true, false, false, 0, 0, "AXIS=N,...",
     "the grid of slots, such as data=4,model=2; default: a slot for each rank; in one process for each GPU, "
     "or for each thread (isogrid takes fewer where more do not make the largest part of the rows "
     "smaller); one axis may be *: its size follows from the others",
     "named axes, as in data=2,model=4", NULL},
    {"devices", true, false, false, 0, 0, "RANK,...",
     "the rank of each slot of the mesh, in the mesh's order (the last axis runs fastest): 0,2,1,3, or "
     "0-3,0-3, or 0x4,1x4; default: contiguous blocks. It changes no result",
     "the rank of each slot of the mesh, as in 0,1,2,3 or 0-3,0-3 or 0x4,1x4", NULL},
    {"seed", true, true, false, 0, UINT64_MAX, "N",
     "seed of initial weights, shuffling and dropout; default " ISO_TEXT_OF(ISO_DEFAULT_SEED),
     "an integer from 0 to 18446744073709551615", NULL},
    {"role", false, false, false, 0, 0, "auto|worker|evaluator",
     "an evaluator follows the checkpoints and never slows the workers; auto (the default): what TF_CONFIG "
     "says, otherwise a worker",
     "auto, worker or evaluator", NULL},
    {"threads", false, true, false, 1, 4096, "N", "threads of each rank; default: cores / ranks on the host",
     "an integer from 1 to 4096", NULL},
    {"verbose", false, true, false, 0, 2, "0|1|2",
     "0: silent; 1 (the default): progress bar; 2: first the whole plan, then one line for each epoch, and "
     "every 100 steps the times of each rank",
     "0, 1 or 2", NULL},
    {"timeout", true, true, false, 1, 1000000, "S",
     "a rank that others wait for is named in a warning every S seconds; default " ISO_TEXT_OF(
         ISO_DEFAULT_TIMEOUT) ". A rank that is lost ends the job within 10 seconds in any case",
     "an integer from 1 to 1000000", NULL},
    {"timeout-abort", true, true, true, 1, 1, NULL,
     "ends the job with exit code 74 where --timeout would warn", "given without a value", NULL},
    {"collectives", true, false, false, 0, 0, "auto|mpi|nccl",
     "the library that reduces between hosts and between GPUs; auto (the default): Isogrid, in a fixed "
     "order, so that results are the same to the bit on any number of hosts and GPUs; mpi: MPI, between "
     "hosts; nccl: NCCL, between GPUs. MPI and NCCL add in orders of their own",
     "auto, mpi or nccl", collectives},
    {"backend", true, false, false, 0, 0, backends,
     "the kernels to use; auto (the default): cpu, even if there are GPUs; cuda: GPUs; reference: plain "
     "loops, with which the tests compare the others",
     "the name of a backend", NULL},
    {"tf32", true, true, true, 1, 1, NULL,
     "on GPUs, products and convolutions of float32 multiply as TF32: faster, and with errors of 1e-3 "
     "instead of 1e-7. Elsewhere it changes nothing",
     "given without a value", NULL},
    {"cuda-aware", true, true, true, 1, 1, NULL,
     "for messages between hosts, passes addresses of GPU memory to MPI; without it, messages go through "
     "pinned memory in chunks. The job ends at its start if this MPI cannot do it",
     "given without a value", NULL},
    {"tune", true, false, false, 0, 0, "FILE",
     "on GPUs, takes the algorithms of products and convolutions from this JSON file. Shapes that it lacks "
     "are measured at the start and added to it: docs/gpu.md",
     "the name of a file", NULL},
};
enum { OPTIONS = sizeof options / sizeof *options };

const iso_session_option *iso_session_option_find(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == length && !strncmp(name, options[i].name, length))
            return &options[i];
    return NULL;
}

static bool read_number(const iso_session_option *option, const char *text, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || number < option->low || number > option->high)
        return false;
    *value = number;
    return true;
}

static bool is_choice(const iso_session_option *option, const char *text)
{
    for (int i = 0; option->choices[i]; i++)
        if (!strcmp(option->choices[i], text))
            return true;
    return false;
}

/* A text that the option takes. */
static bool is_text(const iso_session_option *option, const char *text)
{
    return option->choices ? is_choice(option, text) : *text != 0;
}

iso_status iso_session_option_check(const iso_session_option *option, const char *text, uint64_t *number)
{
    if (option->number ? read_number(option, text, number) : is_text(option, text))
        return ISO_OK;
    return iso_error(ISO_INVALID, "--%s '%s': it must be %s", option->name, text, option->wants);
}

/* Stores a number in the context. */
static void take_number(iso_context *ctx, const iso_session_option *option, uint64_t number)
{
    if (!strcmp(option->name, "seed"))
        ctx->seed = number;
    else if (!strcmp(option->name, "threads"))
        ctx->n_threads = (int)number;
    else if (!strcmp(option->name, "timeout"))
        ctx->timeout = (double)number;
    else if (!strcmp(option->name, "verbose"))
        ctx->verbose = (int)number;
}

/* The option that an argument names. *value: the text after '=', NULL if there is no '='. */
static const iso_session_option *find_option(const char *argument, const char **value)
{
    if (strncmp(argument, "--", 2))
        return NULL;
    const char *name = argument + 2, *equal = strchr(name, '=');
    *value = equal ? equal + 1 : NULL;
    return iso_session_option_find(name, equal ? (size_t)(equal - name) : strlen(name));
}

static iso_status options_keep(iso_context *ctx, const iso_session_option *option, const char *text)
{
    uint64_t number = 0;
    iso_status status = iso_session_option_check(option, text, &number);
    if (status != ISO_OK)
        return status;
    take_number(ctx, option, number);
    char *copy = iso_strdup(text);
    if (!copy)
        return iso_no_memory("the option --%s", option->name);
    int at = 0;
    while (at < ctx->n_options && strcmp(ctx->options[at].name, option->name))
        at++;
    iso_free(ctx->options[at].value); /* given twice: the last one counts */
    ctx->options[at] = (iso_option_value){option->name, copy};
    if (at == ctx->n_options)
        ctx->n_options++;
    return ISO_OK;
}

/* Takes the option at argv[*at] if it is one of ours, and steps over it. */
static iso_status take_at(iso_context *ctx, int argc, char **argv, int *at, bool *taken)
{
    const char *value;
    const iso_session_option *option = find_option(argv[*at], &value);
    *taken = option != NULL;
    if (!option)
        return ISO_OK;
    ++*at;
    if (option->flag) {
        if (value)
            return iso_error(ISO_INVALID, "option '--%s=%s' takes no value", option->name, value);
        value = "1";
    }
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

static iso_status take_threads(iso_context *ctx)
{
    const char *text = getenv("ISOGRID_THREADS");
    const iso_session_option *threads = iso_session_option_find("threads", strlen("threads"));
    uint64_t number;
    if (!text || !*text)
        return ISO_OK;
    if (!read_number(threads, text, &number))
        return iso_error(ISO_INVALID, "ISOGRID_THREADS is '%s': it must be %s", text, threads->wants);
    take_number(ctx, threads, number);
    return ISO_OK;
}

/* The options that an environment variable may give too: the command line overrides it. */
static iso_status take_environment(iso_context *ctx)
{
    const char *backend = getenv("ISOGRID_BACKEND");
    iso_status status = take_threads(ctx);
    if (status != ISO_OK || !backend || !*backend)
        return status;
    return options_keep(ctx, iso_session_option_find("backend", strlen("backend")), backend);
}

iso_status iso_options_take(iso_context *ctx, int *argc, char ***argv)
{
    ctx->options = iso_new(OPTIONS * sizeof *ctx->options);
    if (!ctx->options)
        return iso_no_memory("the options");
    iso_status status = take_environment(ctx);
    if (status != ISO_OK)
        return status;
    return argc && argv && *argv ? take_arguments(ctx, argc, *argv) : ISO_OK;
}

void iso_options_describe(const iso_context *ctx, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (int i = 0; i < OPTIONS; i++) {
        const char *value = options[i].same ? iso_option(ctx, options[i].name, NULL) : NULL;
        bool flag = options[i].flag;
        if (value && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s--%s%s%s", length ? " " : "",
                                       options[i].name, flag ? "" : " ", flag ? "" : value);
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
