/* Warns of differences between a resumed training and the one that wrote its checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/backend/backend.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/session/session.h"
#include "runtime/spmd/distribution_json.h"
#include "runtime/train/state_impl.h"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

uint64_t iso_state_hexadecimal(const json_t *object, const char *key)
{
    return strtoull(text_of(object, key), NULL, 16);
}

/* ---- layouts ---- */

enum { SHOWN = 3 };

static bool has_equal(const json_t *object, const char *key, const json_t *value)
{
    const json_t *other = json_object_get(object, key);
    return other && json_equal(other, value);
}

/* Adds the key unless SHOWN keys are there. */
static void add_key(iso_text *keys, int *found, const char *key)
{
    if (++*found <= SHOWN)
        iso_text_add(keys, "%s'%s'", keys->length ? ", " : "", key);
}

/* Names the first keys whose values differ between the two objects, after the words. */
static void add_keys(iso_text *text, const char *words, json_t *theirs, json_t *ours)
{
    iso_text keys = {0};
    int found = 0;
    const char *key;
    json_t *value;
    json_object_foreach(theirs, key, value) if (!has_equal(ours, key, value)) add_key(&keys, &found, key);
    json_object_foreach(ours, key, value) if (!json_object_get(theirs, key)) add_key(&keys, &found, key);
    if (found)
        iso_text_add(text, "%s%s %s", text->length ? "; " : "", words, iso_text_get(&keys));
    if (found > SHOWN)
        iso_text_add(text, " and %d more", found - SHOWN);
    iso_text_free(&keys);
}

/* What the batch is split over. */
static const char *axes_of_batch(const json_t *rules)
{
    const char *axis = text_of(rules, "batch_axis");
    return *axis                                              ? axis
           : strcmp(text_of(rules, "kind"), "callbacks") == 0 ? "the axes of callbacks"
                                                              : "every axis";
}

/* Names what differs between the rules of two distributions, as iso_distribution_json() has them. */
static void add_rules(iso_text *text, const json_t *theirs, const json_t *ours, const iso_mesh *mesh)
{
    const json_t *before = json_object_get(theirs, "zero"), *now = json_object_get(ours, "zero");
    add_keys(text, "keys", json_object_get(theirs, "layouts"), json_object_get(ours, "layouts"));
    if (strchr(iso_mesh_text(mesh), ',') && strcmp(axes_of_batch(theirs), axes_of_batch(ours)) != 0)
        iso_text_add(text, "%sthe batch over %s, here over %s", text->length ? "; " : "",
                     axes_of_batch(theirs), axes_of_batch(ours));
    if (!json_equal(before, now))
        iso_text_add(text, "%szero %" JSON_INTEGER_FORMAT ", here %" JSON_INTEGER_FORMAT,
                     text->length ? "; " : "", json_integer_value(before), json_integer_value(now));
}

/* A file of an older version has no "distribution". */
static void compare_layouts(const char *path, const json_t *state, const iso_graph *graph)
{
    json_t *layouts = iso_state_layouts(graph), *rules = iso_distribution_json(graph);
    const json_t *their_rules = json_object_get(state, "distribution");
    iso_text text = {0};
    add_keys(&text, "variables", json_object_get(state, "layouts"), layouts);
    if (json_is_object(their_rules))
        add_rules(&text, their_rules, rules, iso_graph_mesh(graph));
    if (text.length)
        iso_warn(
            "%s was written with other layouts than this run has (%s): numbers may agree to rounding only",
            path, iso_text_get(&text));
    iso_text_free(&text);
    json_decref(rules);
    json_decref(layouts);
}

/* ---- machine and numerics ---- */

static void compare_machines(const char *path, const json_t *state, const iso_graph *graph)
{
    const char *isa = iso_context_backend(iso_graph_context(graph))->kernels(),
               *mesh = iso_mesh_text(iso_graph_mesh(graph));
    if (strcmp(text_of(state, "instruction_set"), isa) != 0)
        iso_warn("%s was written with %s kernels, this run has %s: numbers agree to rounding only", path,
                 text_of(state, "instruction_set"), isa);
    if (strcmp(text_of(state, "mesh"), mesh) != 0)
        iso_warn("%s was written on the mesh %s, this run has %s: numbers agree to rounding only", path,
                 text_of(state, "mesh"), mesh);
    else
        compare_layouts(path, state, graph);
    iso_state_warn_of_precision(path, state, graph);
}

static const char *precision_in_words(const char *precision)
{
    return strcmp(precision, ISO_PRECISION_OF_LAYERS) == 0 ? "the precisions of its layers' policies"
                                                           : precision;
}

bool iso_state_warn_of_precision(const char *path, const json_t *state, const iso_graph *graph)
{
    static const char mixed[] = "mixed_bfloat16";
    const char *theirs = text_of(state, "precision"), *ours = iso_graph_precision_name(graph);
    bool own = strcmp(theirs, ISO_PRECISION_OF_LAYERS) == 0, same = strcmp(theirs, ours) == 0;
    /* A model that is saved in mixed_bfloat16 has a policy in each layer, and computes the same. */
    same |=
        (own && !strcmp(ours, mixed)) || (!strcmp(theirs, mixed) && !strcmp(ours, ISO_PRECISION_OF_LAYERS));
    if (!*theirs || same)
        return false;
    iso_warn("%s was written by a run in %s, this one computes in %s: numbers agree to rounding only%s%s%s",
             path, precision_in_words(theirs), precision_in_words(ours), own ? "" : " (--precision ",
             own ? "" : theirs, own ? "" : " computes as that run did)");
    return true;
}

iso_status iso_state_warn_of_model(const char *path, const json_t *state, iso_model *model, bool *warned)
{
    iso_text text = {0};
    bool precision = iso_state_warn_of_precision(path, state, model->graph);
    iso_status status = iso_state_layer_differences(state, model, false, &text);
    if (text.length)
        iso_warn("%s was written by another model than this one, its outputs may differ: %s", path,
                 iso_text_get(&text));
    if (warned)
        *warned = precision || text.length;
    iso_text_free(&text);
    return status;
}

/* ---- the data ---- */

static bool has_other_seed(const json_t *state, const iso_training *t)
{
    return iso_state_hexadecimal(state, "seed") != iso_graph_seed(t->model->graph);
}

/* Whether the member is a count that differs from `value`. */
static bool is_other_count(const json_t *object, const char *key, int64_t value)
{
    return (int64_t)json_integer_value(json_object_get(object, key)) != value;
}

/* Whether the state has a hash of the order of rows other than `order`. */
static bool is_other_order(const json_t *state, uint64_t order)
{
    const json_t *data = json_object_get(state, "data");
    return json_object_get(data, "order") && iso_state_hexadecimal(data, "order") != order;
}

bool iso_state_has_other_order(const json_t *state, const iso_training *t)
{
    return is_other_order(state, iso_dataset_order(t->data));
}

bool iso_state_has_other_stages(const json_t *state, const iso_training *t)
{
    return iso_state_has_other_order(state, t) &&
           is_other_order(state, iso_dataset_order_with_seed(t->data, iso_state_hexadecimal(state, "seed")));
}

static void compare_data(const char *path, const json_t *state, const iso_training *t)
{
    const json_t *data = json_object_get(state, "data");
    if (has_other_seed(state, t))
        iso_warn("%s was written by a run of seed %" PRIu64 ", this one has %" PRIu64
                 ": shuffling and dropout differ from that run's",
                 path, iso_state_hexadecimal(state, "seed"), iso_graph_seed(t->model->graph));
    if (strcmp(text_of(data, "source"), iso_dataset_source(t->data)) != 0)
        iso_warn("%s was written by a run on the data set %s, this one has %s", path, text_of(data, "source"),
                 iso_dataset_source(t->data));
    if (is_other_count(data, "rows", iso_dataset_rows(t->data)) ||
        is_other_count(data, "batch_size", iso_dataset_batch_size(t->data)) ||
        is_other_count(state, "steps_per_epoch", t->steps))
        iso_warn("%s was written by a run with epochs of %" JSON_INTEGER_FORMAT
                 " steps, %" JSON_INTEGER_FORMAT " rows in batches of %" JSON_INTEGER_FORMAT
                 "; this one has %" PRId64 " steps, %" PRId64 " rows in batches of %" PRId64,
                 path, json_integer_value(json_object_get(state, "steps_per_epoch")),
                 json_integer_value(json_object_get(data, "rows")),
                 json_integer_value(json_object_get(data, "batch_size")), t->steps, iso_dataset_rows(t->data),
                 iso_dataset_batch_size(t->data));
    else if (iso_state_has_other_stages(state, t))
        iso_warn("%s was written by a run in which rows came in another order: they are shuffled or "
                 "split differently here",
                 path);
}

/* ---- the optimizer ---- */

bool iso_state_has_other_rate(const json_t *state, const iso_training *t, double *rate)
{
    const iso_optimizer *ours = &t->model->optimizer;
    const json_t *theirs = json_object_get(json_object_get(state, "optimizer"), "learning_rate");
    if (ours->schedule.kind != ISO_SCHEDULE_CONSTANT || !json_is_number(theirs) ||
        json_number_value(theirs) == ours->learning_rate)
        return false;
    *rate = ours->learning_rate;
    return true;
}

/* A file of an older version does not have all members of an object. */
static bool is_as_before(json_t *theirs, const json_t *ours)
{
    const char *key;
    json_t *value;
    if (!json_is_object(theirs))
        return json_equal(theirs, ours);
    json_object_foreach(theirs, key, value) if (!json_equal(value, json_object_get(ours, key))) return false;
    return true;
}

/* Settings are constants of the compiled functions, so the settings of this run apply. */
static void compare_optimizers(const char *path, const json_t *state, const iso_training *t)
{
    const json_t *theirs = json_object_get(state, "optimizer"), *value;
    json_t *ours = iso_state_optimizer(&t->model->optimizer);
    const char *key;
    json_object_foreach(ours, key, value)
    {
        json_t *other = json_object_get(theirs, key);
        if (!other || is_as_before(other, value))
            continue;
        if (json_is_number(value) && json_is_number(other))
            iso_warn("%s was written by a run whose optimizer has %s %g; it is %g from here on", path, key,
                     json_number_value(other), json_number_value(value));
        else
            iso_warn(
                "%s was written by a run whose optimizer has other %s; those of this run hold from here on",
                path, strcmp(key, "schedule") == 0 ? "numbers in its schedule" : "settings");
    }
    json_decref(ours);
}

static void compare_losses(const char *path, const json_t *state, const iso_training *t)
{
    const char *theirs = text_of(state, "loss"); /* "": the file is older than this member */
    json_t *loss = iso_state_loss(t->model);
    const char *ours = json_string_value(loss);
    if (*theirs && ours && strcmp(theirs, ours) != 0)
        iso_warn("%s was written by a run whose loss is %s; it is %s from here on", path, theirs, ours);
    json_decref(loss);
}

/* Files of older versions have none of these. */
static void compare_weights(const char *path, const json_t *state, const iso_training *t)
{
    const json_t *weighted = json_object_get(state, "sample_weights");
    const char *theirs = text_of(state, "class_weights"), *ours = iso_state_class_weights(t->model);
    if (json_is_boolean(weighted) && json_is_true(weighted) != t->model->sample_weights)
        iso_warn("%s was written by a run with%s sample weights; from here on there are %s", path,
                 t->model->sample_weights ? "out" : "", t->model->sample_weights ? "some" : "none");
    if (*theirs && strcmp(theirs, ours) != 0)
        iso_warn("%s was written by a run whose class weights are %s; they are %s from here on", path, theirs,
                 ours);
}

void iso_state_warn_of_differences(const char *path, const json_t *state, const iso_training *t)
{
    if (!iso_is_chief(t->ctx))
        return;
    compare_data(path, state, t);
    compare_machines(path, state, t->model->graph);
    compare_optimizers(path, state, t);
    compare_losses(path, state, t);
    compare_weights(path, state, t);
}
