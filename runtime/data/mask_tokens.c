/* Tokens are hidden anew in each epoch, for models that predict them. It is a map, whose settings are ours. */
#include <inttypes.h>
#include <stdint.h>

#include "runtime/base/arguments.h"
#include "runtime/base/convert.h"
#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/base/random.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"

enum { DOES_NOT_COUNT = -100 };

/* The settings of the map, in one piece of memory. */
typedef struct masking {
    uint64_t key;
    /* A token has two words of 32 random bits. If the first one is below `counts`, the token counts. Then, if the
     * second one is below `hidden`, it becomes the mask token; else, if below `random`, a random token. */
    double counts, hidden, random;
    int64_t vocabulary;
    int32_t mask;
    bool once;
    uint8_t special[]; /* a bit for each token that never counts */
} masking;

static bool is_special(const masking *m, int32_t token)
{
    return m->special[token / 8] >> token % 8 & 1;
}

static void set_special(masking *m, int32_t token)
{
    m->special[token / 8] |= (uint8_t)(1 << token % 8);
}

/* Replaces *token if it counts; returns its label. */
static int32_t mask_one(const masking *m, iso_philox draw, int32_t *token)
{
    const int32_t former = *token;
    if (is_special(m, former) || draw.word[0] >= m->counts)
        return DOES_NOT_COUNT;
    if (draw.word[1] < m->hidden)
        *token = m->mask;
    else if (draw.word[1] < m->random)
        *token = (int32_t)((uint64_t)draw.word[2] * (uint64_t)m->vocabulary >> 32);
    return former;
}

/* in: [t] of integers -> x [t], y [t]. Each token has a block of random words, by its position in all rows. */
static iso_status mask_row(const iso_element *in, void *const *out, void *user)
{
    const masking *m = user;
    int32_t *x = out[0], *y = out[1];
    const int64_t t = in->shape[0].dim[0], epoch = m->once ? 0 : in->epoch;
    const int64_t bad = iso_convert(in->dtype[0], in->data[0], ISO_I32, x, t);
    if (bad >= 0)
        return iso_error(ISO_INVALID, "the token at position %" PRId64 " is no value of int32", bad);
    for (int64_t i = 0; i < t; i++) {
        if (x[i] < 0 || x[i] >= m->vocabulary)
            return iso_error(ISO_INVALID,
                             "token %" PRId32 " at position %" PRId64 " is not in 0 to %" PRId64
                             " (the vocabulary)",
                             x[i], i, m->vocabulary - 1);
        y[i] = mask_one(m, iso_philox_draw(m->key, (uint64_t)(in->index * t + i), (uint64_t)epoch), &x[i]);
    }
    return ISO_OK;
}

/* ---- settings ---- */

static iso_status check_fractions(double rate, double hidden, double random)
{
    if (!(rate > 0 && rate <= 1))
        return iso_error(ISO_INVALID, "mask_tokens: the rate is %g; it must be above 0 and at most 1", rate);
    if (!(hidden >= 0 && random >= 0 && hidden + random <= 1 + 1e-9))
        return iso_error(
            ISO_INVALID,
            "mask_tokens: hidden is %g and random is %g; they must not be negative, and their sum "
            "at most 1",
            hidden, random);
    return ISO_OK;
}

static iso_status check_tokens(const iso_dataset_mask_tokens_options *options)
{
    const int64_t vocabulary = options->vocabulary;
    if (vocabulary < 1 || vocabulary > INT32_MAX)
        return iso_error(ISO_INVALID, "mask_tokens: the vocabulary is %" PRId64 "; it must be 1 to %" PRId32,
                         vocabulary, INT32_MAX);
    if (options->mask < 0 || options->mask >= vocabulary)
        return iso_error(ISO_INVALID,
                         "mask_tokens: the mask token is %" PRId32
                         "; it must be below the vocabulary, %" PRId64,
                         options->mask, vocabulary);
    if (options->special_count < 0 || (options->special_count > 0 && !options->special))
        return iso_error(ISO_INVALID, "mask_tokens: special_count is %d, and special is %s",
                         options->special_count, options->special ? "given" : "NULL");
    for (int i = 0; i < options->special_count; i++)
        if (options->special[i] < 0 || options->special[i] >= vocabulary)
            return iso_error(ISO_INVALID,
                             "mask_tokens: special[%d] is %" PRId32
                             "; it must be below the vocabulary, %" PRId64,
                             i, options->special[i], vocabulary);
    return ISO_OK;
}

static iso_status check_rows(const iso_dataset *ds)
{
    const iso_spec *spec = &ds->top->spec;
    if (ds->order.spans.batch)
        return iso_error(ISO_INVALID,
                         "mask_tokens: the rows are in batches already; mask tokens before batch");
    if (spec->n_components != 1)
        return iso_error(ISO_INVALID,
                         "mask_tokens: a row of the data set '%s' has %d components; it must have one, its "
                         "tokens: the targets are made of them",
                         ds->top->name, spec->n_components);
    if (spec->shape[0].rank != 1 || iso_dtype_is_float(spec->dtype[0]) || spec->dtype[0] == ISO_BOOL) {
        char shape[128];
        return iso_error(ISO_INVALID,
                         "mask_tokens: a row of the data set '%s' is %s %s; it must be integers, [t]",
                         ds->top->name, iso_dtype_name(spec->dtype[0]),
                         iso_shape_text(&spec->shape[0], shape, sizeof shape));
    }
    return ISO_OK;
}

static iso_status make(const iso_dataset *ds, const iso_dataset_mask_tokens_options *options, masking **made,
                       size_t *bytes)
{
    const double rate = iso_option_number(options->rate, 0.15);
    const double hidden = iso_option_number(options->hidden, 0.8);
    const double random = iso_option_number(options->random, 0.1);
    iso_status status;
    ISO_TRY(check_rows(ds));
    ISO_TRY(check_fractions(rate, hidden, random));
    ISO_TRY(check_tokens(options));
    *bytes = sizeof(masking) + (size_t)options->vocabulary / 8 + 1;
    masking *m = iso_new(*bytes);
    if (!m)
        return iso_no_memory("the special ones of %" PRId64 " tokens", options->vocabulary);
    m->key = iso_random_key(options->seed ? options->seed : ds->seed, "mask_tokens");
    m->counts = rate * 0x1p32;
    m->hidden = hidden * 0x1p32;
    m->random = (hidden + random) * 0x1p32;
    m->vocabulary = options->vocabulary;
    m->mask = options->mask;
    m->once = options->once;
    set_special(m, options->mask);
    for (int i = 0; i < options->special_count; i++)
        set_special(m, options->special[i]);
    *made = m;
done:
    return status;
}

iso_status iso_dataset_mask_tokens_with(iso_dataset *ds, const iso_dataset_mask_tokens_options *options,
                                        size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED_AS("dataset", ds);
    iso_dataset_mask_tokens_options taken = {0};
    masking *m = NULL;
    size_t bytes = 0;
    iso_options_copy(&taken, sizeof taken, options, size);
    iso_status status = iso_dataset_edit(ds);
    if (status != ISO_OK)
        return status;
    status = make(ds, &taken, &m, &bytes);
    if (status != ISO_OK)
        return iso_dataset_keep(ds, status);
    const iso_shape row = ds->top->spec.shape[0];
    status = iso_dataset_map(ds, mask_row, .user = m, .components = 2, .shape = {row, row},
                             .dtype = {ISO_I32, ISO_I32});
    if (status == ISO_OK)
        iso_map_node_own(ds->top, m, iso_hash_bytes(0, m, bytes));
    else
        iso_free(m);
    return status;
}
