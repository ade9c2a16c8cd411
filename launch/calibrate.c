/* isogrid calibrate: measures this machine, and the ops of a model on it, for `isogrid plan --time`. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/plan_impl.h"
#include "runtime/backend/backend.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/session/facts.h"

/* ---- options ---- */

typedef struct calibrate_options {
    iso_plan_options plan;
    const char *out;
    int64_t rounds;
} calibrate_options;

/* The options of `isogrid plan` that change the plan. */
static const char *const shared_rows[] = {
    "model",        "classes",    "mesh",      "layout",         "strict-layouts",   "zero",
    "batch-size",   "loss",       "optimizer", "clip-norm",      "metrics",          "precision",
    "weight-decay", "clip-value", "shape",     "slots-per-host", "global-clip-norm", "layout-file",
    "seed",         "threads",    "backend",   "devices",        "accumulate",       "verbose"};

static const iso_argument own_rows[] = {
    {"out", ISO_ARGUMENT_TEXT, offsetof(calibrate_options, out), "FILE",
     "the JSON file for the measurements; if it exists, they are added to it", 0, 0, NULL},
    {"rounds", ISO_ARGUMENT_COUNT, offsetof(calibrate_options, rounds), "N",
     "how many times a step of the model is measured; default: for about three seconds", 1, 1e6, NULL},
};
enum { SHARED = sizeof shared_rows / sizeof shared_rows[0], OWN = sizeof own_rows / sizeof own_rows[0] };

static void calibrate_make_table(iso_argument rows[SHARED + OWN])
{
    for (int i = 0; i < SHARED; i++) {
        rows[i] = iso_plan_argument(shared_rows[i]);
        rows[i].offset += offsetof(calibrate_options, plan);
        if (!strcmp(rows[i].name, "slots-per-host"))
            rows[i].help =
                "number of slots on each host; default: an equal share of them on each of the hosts "
                "on which this command runs";
    }
    for (int i = 0; i < OWN; i++)
        rows[SHARED + i] = own_rows[i];
}

static void calibrate_print_help(iso_text *text)
{
    iso_argument rows[SHARED + OWN];
    calibrate_make_table(rows);
    iso_arguments_help(rows, SHARED + OWN, text);
}

/* Without a model only the machine's rates are measured. */
static iso_status calibrate_check_model(const calibrate_options *read)
{
    const iso_train_options *train = &read->plan.train, none = iso_train_options_default();
    const struct {
        const char *name;
        bool given;
    } options[] = {{"mesh", train->mesh},
                   {"layout", train->layouts.count > 0},
                   {"layout-file", train->layout_file},
                   {"zero", train->zero != none.zero},
                   {"batch-size", train->batch_size != none.batch_size},
                   {"precision", train->precision},
                   {"optimizer", train->optimizer},
                   {"classes", train->classes != none.classes},
                   {"shape", read->plan.shape}};
    for (size_t i = 0; !train->model && i < sizeof options / sizeof options[0]; i++)
        if (options[i].given)
            return iso_error(ISO_INVALID,
                             "--%s needs --model: without a model only the machine's rates are measured",
                             options[i].name);
    return ISO_OK;
}

/* Measurements are added to those that the file has, so that a pipe would be waited for, and a device never ends. */
static iso_status check_out(const char *path)
{
    struct stat about;
    if (!path)
        return iso_error(ISO_INVALID, "--out is missing: the file for the measurements");
    iso_status status = iso_output_path_check("--out ", path, ISO_TARGET_REPLACED);
    if (status == ISO_OK && stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        status = iso_error(ISO_INVALID, "--out '%s' is not a regular file", path);
    return status;
}

static iso_status calibrate_read_options(int argc, char *const *argv, calibrate_options *options)
{
    iso_argument rows[SHARED + OWN];
    calibrate_options read = {.plan.train = iso_train_options_default(), .rounds = 0};
    iso_status status;
    calibrate_make_table(rows);
    ISO_TRY(iso_arguments_parse(rows, SHARED + OWN, argc, argv, &read));
    ISO_TRY(iso_train_options_check(&read.plan.train));
    if (read.plan.shape)
        ISO_TRY(iso_argument_shape("--shape", read.plan.shape, 1, ISO_MAX_RANK - 1, &read.plan.row));
    ISO_TRY(calibrate_check_model(&read));
    ISO_TRY(check_out(read.out));
    *options = read;
done:
    return status;
}

/* ---- the file ---- */

/* Reads the calibration that is in the file already. Collective. */
static iso_status read_before(iso_context *ctx, const char *path, iso_calibration **calibration)
{
    iso_status status = ISO_OK;
    unsigned char there = access(path, F_OK) == 0;
    ISO_TRY(iso_broadcast(ctx, &there, sizeof there));
    if (there)
        return iso_calibration_read(ctx, "--out", path, calibration);
    *calibration = iso_calibration_create();
    ISO_TRY(iso_agree(ctx, *calibration ? ISO_OK : iso_no_memory("a calibration")));
done:
    return status;
}

static iso_status describe_machine(iso_context *ctx, iso_calibration *calibration)
{
    char model[ISO_CALIBRATION_TEXT], build[ISO_CALIBRATION_TEXT], date[32];
    time_t now = time(NULL);
    struct tm parts;
    iso_processor_model(model, sizeof model);
    const char *backend = iso_context_backend(ctx)->description();
    int cores = iso_threads(ctx) * iso_host_ranks(ctx);
    if (calibration->n_ops && calibration->cores != cores && !strcmp(calibration->processor, model))
        return iso_error(
            ISO_INVALID,
            "the file holds measurements with %d thread%s, and this run has %d (--threads): name "
            "another file with --out",
            calibration->cores, calibration->cores == 1 ? "" : "s", cores);
    if (calibration->n_ops &&
        (strcmp(calibration->processor, model) || strcmp(calibration->backend, backend)))
        return iso_error(
            ISO_INVALID,
            "the file holds measurements of another machine ('%s', %d core%s, %s; here '%s', %d, %s): "
            "name another file with --out",
            calibration->processor, calibration->cores, calibration->cores == 1 ? "" : "s",
            calibration->backend, model, cores, backend);
    iso_calibration_name_build(build);
    if (calibration->n_ops && strcmp(calibration->build, build))
        return iso_error(
            ISO_INVALID,
            "the file holds measurements of %s%s; this one is %s, whose kernels may take other times: name "
            "another file with --out",
            calibration->build[0] ? "Isogrid " : "an earlier build of Isogrid", calibration->build, build);
    strftime(date, sizeof date, "%Y-%m-%d", localtime_r(&now, &parts));
    snprintf(calibration->processor, sizeof calibration->processor, "%s", model);
    snprintf(calibration->backend, sizeof calibration->backend, "%s", backend);
    snprintf(calibration->date, sizeof calibration->date, "%s", date);
    snprintf(calibration->build, sizeof calibration->build, "%s", build);
    calibration->cores = cores;
    return ISO_OK;
}

static iso_status write_file(const char *path, const iso_calibration *calibration)
{
    iso_text text = {0};
    iso_calibration_print(calibration, &text);
    iso_status status = text.failed ? iso_no_memory("the text of a calibration")
                                    : iso_file_replace(path, text.data, text.length);
    iso_text_free(&text);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "--out ");
}

/* ---- measuring ---- */

static double memory_of_machine(void)
{
    return 0.7 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* Without --slots-per-host the hosts of this job share the mesh's slots, as in a run on them. */
static int slots_per_host(const iso_context *ctx, const calibrate_options *options, const iso_mesh *mesh)
{
    int hosts = iso_hosts(ctx);
    if (options->plan.slots_per_host || hosts == 1)
        return (int)options->plan.slots_per_host;
    return (iso_mesh_slots(mesh) + hosts - 1) / hosts;
}

/* Benchmarks on all ranks at the same time, so that simulated hosts of one machine share its cores as in a run.
 * Collective. */
static iso_status benchmark_step(iso_context *ctx, const calibrate_options *options, iso_calibration *into)
{
    iso_dry_run p = {0};
    iso_status status;
    ISO_TRY(iso_dry_run_prepare(ctx, &options->plan, &p));
    const iso_benchmark_options how = {.rows = options->plan.train.batch_size,
                                       .slots_per_host = slots_per_host(ctx, options, p.setup.mesh),
                                       .threads = iso_threads(ctx),
                                       .repetitions = (int)options->rounds,
                                       .shared = iso_hosts(ctx) > 1,
                                       .memory = memory_of_machine() / iso_host_ranks(ctx)};
    ISO_TRY(iso_agree(ctx, iso_function_benchmark(iso_model_graph(p.named.model), &p.training, &how, into)));
done:
    iso_dry_run_free(&p);
    return status;
}

/* The largest tensors, and gradients that are summed together, are not divided. */
static iso_status explain_memory(iso_status status)
{
    char *message = status == ISO_NO_MEMORY ? iso_strdup(iso_error_message()) : NULL;
    if (message)
        iso_error(status, "%s: a smaller --batch-size, or a model of fewer layers, needs less", message);
    iso_free(message);
    return status;
}

/* On the chief. Figures that were disturbed by other work show here. */
static void print_calibration(iso_context *ctx, const char *path, const iso_calibration *calibration)
{
    const iso_network *network = &calibration->network;
    char latency[32];
    printf("%s: %d ops on %s, %d core%s\n", path, calibration->n_ops, calibration->processor,
           calibration->cores, calibration->cores == 1 ? "" : "s");
    if (iso_hosts(ctx) > 1)
        printf("network of %d hosts: latency %s, %.3g Gbit/s, %.3g ns of a core for each byte; a slot has "
               "%.2f of a core while all hosts compute\n",
               iso_hosts(ctx), iso_text_seconds(network->latency, latency, sizeof latency),
               network->bandwidth * 8e-9, network->byte * 1e9, network->core > 0 ? network->core : 1);
}

static iso_status calibrate(iso_context *ctx, const calibrate_options *options, iso_calibration *calibration)
{
    iso_status status = ISO_OK;
    if (iso_host_ranks(ctx) > 1)
        status = iso_error(ISO_INVALID, "calibrate runs as one process on each host, and this one has %d",
                           iso_host_ranks(ctx));
    ISO_TRY(iso_agree(ctx, status));
    status = describe_machine(ctx, calibration);
    ISO_TRY(
        iso_agree(ctx, status == ISO_OK ? ISO_OK : iso_error_prefix(status, "--out '%s': ", options->out)));
    if (!options->plan.train.model || calibration->rates.flops == 0 || iso_hosts(ctx) > 1)
        ISO_TRY(iso_machine_measure(ctx, iso_threads(ctx), calibration));
    if (options->plan.train.model)
        ISO_TRY(explain_memory(benchmark_step(ctx, options, calibration)));
    if (iso_is_chief(ctx))
        status = write_file(options->out, calibration);
    ISO_TRY(iso_agree(ctx, status));
    if (iso_is_chief(ctx))
        print_calibration(ctx, options->out, calibration);
done:
    return status;
}

static iso_status calibrate_run(iso_context *ctx, int argc, char *const *argv)
{
    calibrate_options options;
    iso_calibration *calibration = NULL;
    iso_status status;
    ISO_TRY(iso_agree(ctx, calibrate_read_options(argc, argv, &options)));
    ISO_TRY(read_before(ctx, options.out, &calibration));
    ISO_TRY(calibrate(ctx, &options, calibration));
done:
    iso_calibration_destroy(calibration);
    return status;
}

const iso_command iso_command_calibrate = {"calibrate", "--out FILE [--model NAME or FILE] [OPTION...]",
                                           "measures this machine for `isogrid plan --time`",
                                           .run = calibrate_run, .help = calibrate_print_help};
