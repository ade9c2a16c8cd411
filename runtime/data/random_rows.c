/* Data sets of random numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/data/open_impl.h"
#include "runtime/session/session.h"

/* Data sets of up to this size are made once and kept; rows of larger ones are made each time they are read. */
static const int64_t most_kept = 64 << 20;
static const int64_t block_bytes = 64 << 10;

enum { WORDS = 4, ELEMENT = 4 }; /* numbers that are drawn together; bytes of one */

static void draw_uniform(const iso_random_rows *kind, uint64_t key, uint64_t block, void *values)
{
    (void)kind;
    iso_philox four = iso_philox_draw(key, block, 0);
    for (int k = 0; k < WORDS; k++)
        ((float *)values)[k] = iso_uniform_f32(four.word[k]);
}

static void draw_normal(const iso_random_rows *kind, uint64_t key, uint64_t block, void *values)
{
    (void)kind;
    double four[WORDS];
    iso_random_normals(key, 0, block, four);
    for (int k = 0; k < WORDS; k++)
        ((float *)values)[k] = (float)four[k];
}

static void draw_classes(const iso_random_rows *kind, uint64_t key, uint64_t block, void *values)
{
    iso_philox four = iso_philox_draw(key, block, 0);
    for (int k = 0; k < WORDS; k++)
        ((int32_t *)values)[k] = (int32_t)((uint64_t)four.word[k] * (uint64_t)kind->classes >> 32);
}

typedef void draw_words(const iso_random_rows *kind, uint64_t key, uint64_t block, void *values);

/* Numbers first, first + 1, ... of a component, of 4 bytes each. A number is a function of key and its position. */
static void fill(const iso_random_rows *kind, uint64_t key, int64_t first, int64_t count, void *values)
{
    char *to = values, four[WORDS * ELEMENT];
    draw_words *draw = kind->classes ? draw_classes : kind->normal ? draw_normal : draw_uniform;
    for (int64_t i = first; i < first + count;) {
        int64_t within = i % WORDS, n = first + count - i;
        n = n < WORDS - within ? n : WORDS - within;
        draw(kind, key, (uint64_t)(i / WORDS), four);
        memcpy(to, four + within * ELEMENT, (size_t)n * ELEMENT);
        to += n * ELEMENT;
        i += n;
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

/* ---- rows that are kept ---- */

static iso_status random_rows_make(const iso_random_rows *kind, uint64_t seed, const iso_spec *spec,
                                   int64_t rows, iso_memory_rows *memory)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < spec->n_components; i++) {
        ISO_TRY(iso_alloc((size_t)rows * spec->bytes[i], "a random data set", &memory->owned[i]));
        memory->data[i] = memory->owned[i];
        fill(&kind[i], key_of(spec, i, seed), 0, rows * spec->elements[i], memory->owned[i]);
    }
done:
    return status;
}

static iso_status keep_rows(const iso_random_rows *kind, uint64_t seed, const iso_spec *spec, int64_t rows,
                            iso_node **node)
{
    iso_memory_rows memory = {0};
    iso_spans spans = iso_spans_of_rows(rows);
    iso_status status = ISO_OK;
    ISO_TRY(random_rows_make(kind, seed, spec, rows, &memory));
    ISO_TRY(iso_memory_node("random", spec, &spans, &memory, node));
    return ISO_OK;
done:
    iso_memory_rows_free(&memory);
    return status;
}

/* ---- rows that are made when they are read ---- */

typedef struct sequences {
    iso_random_rows kind[ISO_MAX_COMPONENTS];
    uint64_t key[ISO_MAX_COMPONENTS];
} sequences;

/* Makes blocks of consecutive rows, and gathers from these. */
static iso_status random_rows_gather(iso_node *node, int component, const iso_rows *rows, iso_dtype dtype,
                                     void *out)
{
    const sequences *s = node->impl;
    const int64_t elements = node->spec.elements[component], bytes = (int64_t)node->spec.bytes[component];
    const int64_t most = bytes < block_bytes ? block_bytes / bytes : 1;
    const size_t read =
        (size_t)(rows->part ? iso_box_count(rows->part->box) : elements) * iso_dtype_size(dtype);
    int64_t element = 0, count;
    void *block;
    iso_status status = iso_alloc((size_t)(most * bytes), "rows of a random data set", &block);
    for (int64_t i = 0; i < rows->count && status == ISO_OK; i += count) {
        count = iso_rows_consecutive(rows, i, most);
        int64_t first = iso_rows_at(rows, i);
        iso_rows here = {.count = count, .part = rows->part};
        fill(&s->kind[component], s->key[component], first * elements, count * elements, block);
        int64_t row = iso_gather(node->spec.dtype[component], block, elements, &here, dtype,
                                 (char *)out + (size_t)i * read, &element);
        if (row >= 0)
            status = iso_bad_element(node, component, first + row,
                                     (const char *)block + (row * elements + element) * ELEMENT, dtype);
    }
    iso_free(block);
    return status;
}

static void random_rows_destroy(iso_node *node)
{
    iso_free(node->impl);
}

static const iso_node_ops random_ops = {.gather = random_rows_gather, .destroy = random_rows_destroy};

static iso_status make_rows_when_read(const iso_random_rows *kind, uint64_t seed, const iso_spec *spec,
                                      int64_t rows, iso_node **node)
{
    sequences *s = iso_new(sizeof *s);
    if (!s)
        return iso_no_memory("a random data set");
    for (int i = 0; i < spec->n_components; i++) {
        s->kind[i] = kind[i];
        s->key[i] = key_of(spec, i, seed);
    }
    iso_status status = iso_node_create(&random_ops, "random", spec, NULL, NULL, s, node);
    if (status != ISO_OK) {
        iso_free(s);
        return status;
    }
    (*node)->spans = iso_spans_of_rows(rows);
    (*node)->identity = 1; /* never 0 */
    for (int i = 0; i < spec->n_components; i++) {
        const uint64_t draw[] = {s->key[i], (uint64_t)kind[i].classes, kind[i].normal};
        (*node)->identity = iso_hash_bytes((*node)->identity, draw, sizeof draw) | 1;
    }
    return ISO_OK;
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
    iso_status status = ISO_OK;
    iso_spec spec = {0};
    int64_t bytes = 0;
    iso_random_rows kind[ISO_MAX_COMPONENTS] = {{.classes = 0}};
    ISO_TRY(random_rows_describe(options, &spec, kind));
    ISO_TRY(iso_spec_finish(&spec, rows, "random"));
    for (int i = 0; i < spec.n_components && bytes <= most_kept; i++)
        bytes += rows * (int64_t)spec.bytes[i]; /* each product can be counted: iso_spec_finish */
    ISO_TRY((bytes <= most_kept ? keep_rows : make_rows_when_read)(kind, seed, &spec, rows, node));
done:
    return status;
}

iso_status iso_dataset_random_with(iso_context *ctx, int64_t rows, const iso_dataset_random_options *options,
                                   size_t size)
{
    ISO_DEFAULT_MODES();
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
