/* isogrid plan: shows what a training run would do on a mesh, without data and without running it, in one
 * process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/plan_impl.h"
#include "runtime/backend/backend.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/session/facts.h"

/* ---- options ---- */

static const char *const shared[] = {
    "model",       "classes",     "mesh",         "devices",       "layout",     "strict-layouts",
    "zero",        "batch-size",  "optimizer",    "learning-rate", "schedule",   "weight-decay",
    "clip-norm",   "loss",        "metrics",      "precision",     "clip-value", "global-clip-norm",
    "layout-file", "seed",        "threads",      "verbose",       "backend",    "accumulate",
    "tf32",        "collectives", "ema-momentum", "lora",
};

/* By iso_device_exchange. */
static const char *const gpu_exchanges[] = {"nccl", "peers", "host", NULL};

static const iso_argument own[] = {
    {"shape", ISO_ARGUMENT_TEXT, offsetof(iso_plan_options, shape), "N,...",
     "the shape of a row of a built-in model's input; default 28,28,1, or a row of tokens", 0, 0, NULL},
    {"slots-per-host", ISO_ARGUMENT_COUNT, offsetof(iso_plan_options, slots_per_host), "N",
     "number of slots on each host, in the order of their ranks; default: all on one host", 1, 0x1p31 - 1,
     NULL},
    {"gpus-per-host", ISO_ARGUMENT_COUNT, offsetof(iso_plan_options, gpus_per_host), "N",
     "with --backend cuda: number of GPUs of each host, which its slots take in turn; default: one for each "
     "slot",
     1, 0x1p31 - 1, NULL},
    {"gpu-exchange", ISO_ARGUMENT_CHOICE, offsetof(iso_plan_options, gpu_exchange), "HOW",
     "with --backend cuda: how the GPUs of a host exchange data, which decides on the buffers in the plan: "
     "by NCCL (default), by access to each other's memory, or through memory of the host",
     0, 0, gpu_exchanges},
    {"memory", ISO_ARGUMENT_TEXT, offsetof(iso_plan_options, memory), "SIZE[/host|/slot|/gpu]",
     "memory of a host (or of a slot, or of a GPU): 64GiB, 16GB/slot, 80GB/gpu; a plan that needs more is an "
     "error",
     0, 0, NULL},
    {"suggest", ISO_ARGUMENT_FLAG, offsetof(iso_plan_options, suggest), NULL,
     "instead of a plan: searches for the layouts with the lowest cost of a step, and prints them as a file "
     "for --layout-file",
     0, 0, NULL},
    {"slots", ISO_ARGUMENT_COUNT, offsetof(iso_plan_options, slots), "N",
     "with --suggest, instead of --mesh: also searches for the best mesh of N slots", 1, 0x1p24, NULL},
    {"time", ISO_ARGUMENT_TEXT, offsetof(iso_plan_options, train.time), "FILE",
     "predicts the time of a step from a file of `isogrid calibrate`; --suggest then compares predicted "
     "times",
     0, 0, NULL},
    {"network", ISO_ARGUMENT_TEXT, offsetof(iso_plan_options, train.network), "FILE",
     "with --time: a file that describes the network between hosts (docs/plan.md); default: the network "
     "that `isogrid calibrate` measured",
     0, 0, NULL},
    {"json", ISO_ARGUMENT_FLAG, offsetof(iso_plan_options, json), NULL,
     "prints JSON, as docs/plan.md describes it", 0, 0, NULL},
};
enum { SHARED = sizeof shared / sizeof shared[0], OWN = sizeof own / sizeof own[0] };

/* Fills `rows` with the table. */
static void plan_make_table(iso_argument rows[SHARED + OWN])
{
    for (int i = 0; i < SHARED; i++)
        rows[i] = iso_plan_argument(shared[i]);
    for (int i = 0; i < OWN; i++)
        rows[SHARED + i] = own[i];
}

iso_argument iso_plan_argument(const char *name)
{
    for (int i = 0; i < OWN; i++)
        if (!strcmp(own[i].name, name))
            return own[i];
    iso_argument row = *iso_train_argument(name);
    row.offset += offsetof(iso_plan_options, train);
    return row;
}

static void plan_print_help(iso_text *text)
{
    iso_argument rows[SHARED + OWN];
    plan_make_table(rows);
    iso_arguments_help(rows, SHARED + OWN, text);
}

/* "16GiB", "1.5GB/slot" */
static iso_status read_memory(const char *text, iso_plan_options *options)
{
    const char *of = strchr(text, '/');
    options->limit_of_slot = of && !strcmp(of, "/slot");
    options->limit_of_gpu = of && !strcmp(of, "/gpu");
    bool known = !of || options->limit_of_slot || options->limit_of_gpu || !strcmp(of, "/host");
    if (known && iso_argument_size(text, of ? (size_t)(of - text) : strlen(text), &options->limit))
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "--memory '%s': should be a size such as 64GiB, 500MB/host, 16GiB/slot or 80GB/gpu",
                     text);
}

static iso_status check_suggest(const iso_plan_options *options)
{
    const iso_train_options *train = &options->train;
    if (!options->suggest)
        return options->slots
                   ? iso_error(ISO_INVALID, "--slots %lld: needs --suggest", (long long)options->slots)
                   : ISO_OK;
    if (train->layouts.count || train->layout_file || train->zero > 1)
        return iso_error(ISO_INVALID, "--suggest finds layouts: omit --layout, --layout-file and --zero");
    if (options->json)
        return iso_error(ISO_INVALID, "--suggest prints a layout file: omit --json");
    if (train->devices)
        return iso_error(ISO_INVALID, "--suggest finds layouts, which do not depend on --devices: omit it");
    if (options->slots && train->mesh)
        return iso_error(ISO_INVALID, "--slots and --mesh: give one of them");
    return ISO_OK;
}

/* The backend itself is found out when there is a context. */
static iso_status check_gpus(const iso_plan_options *options)
{
    if (options->limit_of_gpu && options->suggest)
        return iso_error(ISO_INVALID, "--memory %s: --suggest takes the memory of a host or of a slot",
                         options->memory);
    return ISO_OK;
}

static iso_status check_backend(iso_context *ctx, const iso_plan_options *options)
{
    const iso_backend *backend = iso_context_backend(ctx);
    const char *option = options->gpus_per_host  ? "--gpus-per-host"
                         : options->gpu_exchange ? "--gpu-exchange"
                         : options->limit_of_gpu ? "--memory SIZE/gpu"
                                                 : NULL;
    if (option && backend->device(0)->host_access)
        return iso_error(ISO_INVALID,
                         "%s: the backend %s computes in the host's memory; --backend cuda does not", option,
                         backend->name);
    return ISO_OK;
}

static iso_status plan_read_options(int argc, char *const *argv, iso_plan_options *options)
{
    iso_argument rows[SHARED + OWN];
    iso_plan_options read = {.train = iso_train_options_default()};
    iso_status status;
    plan_make_table(rows);
    ISO_TRY(iso_arguments_parse(rows, SHARED + OWN, argc, argv, &read));
    ISO_TRY(iso_train_options_check(&read.train));
    if (read.shape)
        ISO_TRY(iso_argument_shape("--shape", read.shape, 1, ISO_MAX_RANK - 1, &read.row));
    if (read.memory)
        ISO_TRY(read_memory(read.memory, &read));
    if (!read.train.model)
        ISO_TRY(iso_error(ISO_INVALID, "--model is missing; `isogrid models` lists the built-in models"));
    ISO_TRY(check_suggest(&read));
    ISO_TRY(check_gpus(&read));
    *options = read;
done:
    return status;
}

/* ---- the plan ---- */

static iso_device_exchange gpu_exchange(const char *name)
{
    int number = 0;
    while (name && gpu_exchanges[number] && strcmp(gpu_exchanges[number], name) != 0)
        number++;
    return (iso_device_exchange)number;
}

/* Builds in the model's graph all that training needs. Local. */
static iso_status plan_build(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    iso_compile_options compile = p->named.compile;
    iso_named_model_make(ctx, &options->train, &options->row, &p->named);
    compile.distribution = p->setup.distribution;
    iso_status status = iso_model_describe_with(p->named.model, &compile, sizeof compile, &p->training);
    p->training.gpus_per_host = (int)options->gpus_per_host;
    p->training.gpu_exchange = gpu_exchange(options->gpu_exchange);
    return status;
}

static iso_status plan_make(const iso_plan_options *options, iso_dry_run *p)
{
    return iso_function_plan_timed(iso_model_graph(p->named.model), options->train.batch_size,
                                   (int)options->slots_per_host, &p->training,
                                   p->time.calibration ? &p->time : NULL, &p->report);
}

static iso_status print(iso_context *ctx, const iso_plan_options *options, const iso_plan_report *report)
{
    iso_text text = {0};
    iso_status status = ISO_OK;
    if (options->json)
        status = iso_plan_report_json(report, &text);
    else
        iso_plan_report_print(report, &text);
    if (status == ISO_OK && text.failed)
        status = iso_no_memory("the text of a plan");
    if (status == ISO_OK && iso_is_chief(ctx))
        fputs(iso_text_get(&text), stdout);
    iso_text_free(&text);
    return status;
}

static iso_status check_memory(const iso_plan_options *options, const iso_plan_report *report)
{
    char need[32], over[32], bytes[32];
    const iso_report_memory *of = options->limit_of_slot  ? &report->slot
                                  : options->limit_of_gpu ? &report->gpu
                                                          : &report->host;
    const char *where = options->limit_of_slot ? "slot" : options->limit_of_gpu ? "GPU" : "host";
    double needed = (double)of->total;
    if (!options->memory || needed <= options->limit)
        return ISO_OK;
    bool beside_gpus = of == &report->host && report->gpu.total > 0;
    iso_text text = {0};
    iso_text_add(&text, beside_gpus ? "these are batches, tables and pinned memory"
                                    : "on each slot the largest are ");
    for (int i = 0; i < report->heaviest && !beside_gpus; i++) {
        const iso_report_weight *w = &report->heavy[i];
        bool named = w->variable || !w->from.op || strcmp(w->name, w->from.op) != 0;
        iso_text_add(&text, "%s%s%s%s%s (%s%s)", i ? ", " : "", w->name, named ? "" : " of ",
                     named ? "" : w->from.layer, named || !w->from.backward ? "" : ", backward",
                     iso_text_scaled((double)w->bytes, "B", bytes, sizeof bytes),
                     w->variable ? " with gradient and optimizer state" : "");
    }
    iso_status status = iso_error(ISO_INVALID, "the plan needs %s on a %s, %s more than --memory %s; %s",
                                  iso_text_scaled(needed, "B", need, sizeof need), where,
                                  iso_text_scaled(needed - options->limit, "B", over, sizeof over),
                                  options->memory, iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

static iso_status find_model(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    iso_status status;
    ISO_TRY(iso_named_model_find(ctx, &options->train, &p->named));
    ISO_TRY(iso_agree(ctx, iso_compile_options_check(&options->train, &p->named.compile)));
    ISO_TRY(iso_agree(ctx, iso_compile_options_check_optimizer(&p->named.compile)));
done:
    return status;
}

iso_status iso_dry_run_prepare(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    char spec[32] = "data=*"; /* --devices lists slots */
    iso_status status;
    ISO_TRY(find_model(ctx, options, p));
    if (!options->train.devices)
        iso_default_mesh_write(ctx, options->train.batch_size, spec, sizeof spec);
    ISO_TRY(iso_mesh_abstract_on(ctx, options->train.mesh ? options->train.mesh : spec,
                                 options->train.devices, &p->setup.mesh));
    ISO_TRY(iso_distribution_setup_lay_out(ctx, &options->train, &p->setup));
    ISO_TRY(iso_agree(ctx, plan_build(ctx, options, p)));
done:
    return status;
}

void iso_dry_run_free(iso_dry_run *p)
{
    iso_plan_report_destroy(p->report);
    iso_calibration_destroy(p->calibration);
    iso_named_model_free(&p->named);
    iso_distribution_setup_free(&p->setup);
}

static iso_status read_time(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    iso_status status = ISO_OK;
    if (options->train.time)
        ISO_TRY(iso_calibration_read(ctx, "--time", options->train.time, &p->calibration));
    if (options->train.network)
        ISO_TRY(iso_network_read(ctx, "--network", options->train.network, &p->time.network));
    p->time.calibration = p->calibration;
    iso_processor_model(p->time.processor, sizeof p->time.processor);
    snprintf(p->time.backend, sizeof p->time.backend, "%s", iso_context_backend(ctx)->description());
done:
    return status;
}

iso_status iso_dry_run_prepare_search(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    iso_status status;
    ISO_TRY(read_time(ctx, options, p));
    ISO_TRY(find_model(ctx, options, p));
    ISO_TRY(iso_agree(ctx, plan_build(ctx, options, p)));
done:
    return status;
}

static iso_status plan(iso_context *ctx, const iso_plan_options *options, iso_dry_run *p)
{
    iso_status status;
    ISO_TRY(read_time(ctx, options, p));
    ISO_TRY(iso_dry_run_prepare(ctx, options, p));
    ISO_TRY(iso_agree(ctx, plan_make(options, p)));
    ISO_TRY(iso_agree(ctx, print(ctx, options, p->report)));
    ISO_TRY(iso_agree(ctx, check_memory(options, p->report)));
done:
    return status;
}

static iso_status plan_run(iso_context *ctx, int argc, char *const *argv)
{
    iso_plan_options options;
    iso_dry_run p = {0};
    iso_status status;
    ISO_TRY(iso_agree(ctx, plan_read_options(argc, argv, &options)));
    ISO_TRY(iso_agree(ctx, check_backend(ctx, &options)));
    if (options.suggest) {
        ISO_TRY(iso_dry_run_prepare_search(ctx, &options, &p));
        ISO_TRY(iso_plan_suggest(ctx, &options, &p));
    } else {
        ISO_TRY(plan(ctx, &options, &p));
    }
done:
    iso_dry_run_free(&p);
    return status;
}

const iso_command iso_command_plan = {"plan",
                                      "--model NAME or FILE [OPTION...]",
                                      "shows what training would do on any mesh, without running it",
                                      .run = plan_run,
                                      .help = plan_print_help,
                                      .plans_only = true};
