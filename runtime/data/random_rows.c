/* Data sets of random numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/data/open_impl.h"
#include "runtime/session/session.h"

/* values[i]: a function of key and i. */
static void fill_uniform(uint64_t key, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4) {
        iso_philox four = iso_philox_draw(key, (uint64_t)i / 4, 0);
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = iso_uniform_f32(four.word[k]);
    }
}

/* Standard normal numbers. */
static void fill_normal(uint64_t key, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4) {
        double four[4];
        iso_random_normals(key, 0, (uint64_t)i / 4, four);
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = (float)four[k];
    }
}

static void fill_classes(uint64_t key, int64_t classes, int32_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i += 4) {
        iso_philox four = iso_philox_draw(key, (uint64_t)i / 4, 0);
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = (int32_t)((uint64_t)four.word[k] * (uint64_t)classes >> 32);
    }
}

/* "random/x", "random/x1", ..., "random/y", ... */
static uint64_t key_of(const iso_spec *spec, int component, uint64_t seed)
{
    char path[32];
    bool input = component < spec->n_inputs;
    int number = input ? component : component - spec->n_inputs;
    snprintf(path, sizeof path, number ? "random/%c%d" : "random/%c", input ? 'x' : 'y', number);
    return iso_random_key(seed, path);
}

static iso_status random_rows_make(const iso_random_rows *kind, uint64_t seed, const iso_spec *spec,
                                   int64_t rows, iso_memory_rows *memory)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < spec->n_components; i++) {
        uint64_t key = key_of(spec, i, seed);
        ISO_TRY(iso_alloc((size_t)rows * spec->bytes[i], "a random data set", &memory->owned[i]));
        memory->data[i] = memory->owned[i];
        if (kind[i].classes)
            fill_classes(key, kind[i].classes, memory->owned[i], rows * spec->elements[i]);
        else if (kind[i].normal)
            fill_normal(key, memory->owned[i], rows * spec->elements[i]);
        else
            fill_uniform(key, memory->owned[i], rows * spec->elements[i]);
    }
done:
    return status;
}

/* Adds components to a spec. */
static iso_status random_rows_add(const iso_random_rows *list, int count, int most, const char *what,
                                  iso_spec *spec, iso_random_rows *kind)
{
    if (count < 0 || count > most)
        return iso_error(ISO_INVALID, "random: %d %s; at most %d", count, what, most);
    for (int i = 0; i < count; i++) {
        int64_t n = list[i].classes;
        if (n < 0 || n > INT32_MAX)
            return iso_error(ISO_INVALID, "random: %" PRId64 " classes; 1 to %d", n, INT32_MAX);
        kind[spec->n_components] = list[i];
        spec->shape[spec->n_components] = list[i].shape;
        spec->dtype[spec->n_components++] = n ? ISO_I32 : ISO_F32;
    }
    return ISO_OK;
}

static iso_status random_rows_describe(const iso_dataset_random_options *options, iso_spec *spec,
                                       iso_random_rows *kind)
{
    iso_random_rows x = {.shape = options->shape, .normal = options->normal},
                    y = {options->targets, options->classes, options->normal};
    bool several = options->inputs || options->outputs;
    int inputs = several ? options->inputs : 1, targets = several ? options->outputs : !options->no_targets;
    iso_status status = ISO_OK;
    if (inputs < 1)
        return iso_error(ISO_INVALID, "random: %d inputs; at least 1", inputs);
    ISO_TRY(
        random_rows_add(several ? options->input : &x, inputs, ISO_MAX_MODEL_INPUTS, "inputs", spec, kind));
    ISO_TRY(random_rows_add(several ? options->output : &y, targets, ISO_MAX_MODEL_OUTPUTS, "targets", spec,
                            kind));
    spec->n_inputs = inputs;
    spec->n_targets = targets;
done:
    return status;
}

/* Rows of random numbers as iso_dataset_random() makes them. */
static iso_status open_random(int64_t rows, const iso_dataset_random_options *options, uint64_t seed,
                              iso_node **node)
{
    iso_memory_rows memory = {0};
    iso_spans spans = iso_spans_of_rows(rows);
    iso_status status = ISO_OK;
    iso_spec spec = {0};
    iso_random_rows kind[ISO_MAX_COMPONENTS] = {{.classes = 0}};
    ISO_TRY(random_rows_describe(options, &spec, kind));
    ISO_TRY(iso_spec_finish(&spec, rows, "random"));
    ISO_TRY(random_rows_make(kind, seed, &spec, rows, &memory));
    ISO_TRY(iso_memory_node("random", &spec, &spans, &memory, node));
    return ISO_OK;
done:
    iso_memory_rows_free(&memory);
    return status;
}

iso_status iso_dataset_random_with(iso_context *ctx, int64_t rows, const iso_dataset_random_options *options,
                                   size_t size)
{
    iso_dataset_random_options taken = {0};
    iso_node *node = NULL;
    iso_dataset *ds = NULL;
    iso_options_copy(&taken, sizeof taken, options, size);
    ISO_NEED_AGREED_AS(ctx, "dataset", taken.dataset);
    iso_status status = open_random(rows, &taken, taken.seed ? taken.seed : iso_seed(ctx), &node);
    if (status == ISO_OK)
        status = iso_dataset_create(ctx, node, &ds);
    status = iso_dataset_agree(ctx, status, "the data set", &ds);
    if (status == ISO_OK)
        *taken.dataset = ds;
    return status;
}

/* Replaces images when no data set is installed, for example to measure speed. */
static iso_status open_builtin(iso_part part, uint64_t seed, iso_node **node)
{
    iso_dataset_random_options options = {.shape = ISO_SHAPE(28, 28, 1), .classes = 10};
    return open_random(part == ISO_TEST ? 1000 : 6000, &options, part == ISO_TEST ? ~seed : seed, node);
}

extern const iso_builtin iso_builtin_random;
const iso_builtin iso_builtin_random = {
    .name = "random",
    .description =
        "6,000 + 1,000 images of uniform noise in [0, 1), [28, 28, 1] float32, 10 classes at random",
    .open = open_builtin,
};
