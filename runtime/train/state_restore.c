/* Restores the state of a checkpoint into a training. */
#include <inttypes.h>
#include <string.h>

#include "runtime/backend/backend.h"
#include "runtime/graph/schedules/rule.h"
#include "runtime/train/state_impl.h"

iso_status iso_state_parse(const iso_saved_file *file, json_t **root)
{
    const char *text = iso_saved_file_state(file);
    *root = NULL;
    if (!text)
        return ISO_OK;
    iso_status status = iso_json_parse("its state", text, strlen(text), root);
    if (status == ISO_OK && !json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        status = iso_error(ISO_INVALID, "its state is not a JSON object");
    }
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "%s: ", iso_saved_file_path(file));
}

/* A count, which is required. */
static iso_status count_of(const json_t *object, const char *key, int64_t *value)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_integer(member) || json_integer_value(member) < 0)
        return iso_error(ISO_INVALID, "its state has no count '%s'", key);
    *value = json_integer_value(member);
    return ISO_OK;
}

/* A run that accumulates gradients has variables for their sums, so its state and that of a run that does not differ
 * in their variables. */
static iso_status check_accumulation(const json_t *state, const iso_model *model)
{
    const json_t *member = json_object_get(json_object_get(state, "optimizer"), "accumulation");
    int64_t theirs = json_integer_value(member), ours = model->optimizer.accumulation;
    if (!member || (theirs > 1) == (ours > 1))
        return ISO_OK;
    theirs = theirs > 1 ? theirs : 1;
    return iso_error(ISO_INVALID,
                     "it was written by a run with --accumulate %" PRId64
                     ", this one has --accumulate %" PRId64
                     ": only one of them has sums of gradients; resume with --accumulate %" PRId64
                     ", or begin another run with --weights",
                     theirs, ours > 1 ? ours : 1, theirs);
}

/* Averages are slots of the optimizer. */
static iso_status check_averages(const json_t *state, const iso_model *model)
{
    const json_t *member = json_object_get(json_object_get(state, "optimizer"), "use_ema");
    bool theirs = json_is_true(member), ours = model->optimizer.use_ema;
    if (theirs == ours)
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "it was written by a run whose optimizer has use_ema %s, this one has use_ema %s: only "
                     "one of them has averages; resume with%s --ema-momentum, or begin another run with "
                     "--weights",
                     theirs ? "true" : "false", ours ? "true" : "false", theirs ? "" : "out");
}

/* The lists of variables of optimizers differ; with a schedule, the learning rate is none of them. */
static iso_status check_optimizer(const json_t *state, const iso_model *model)
{
    const json_t *theirs = json_object_get(state, "optimizer");
    const char *rule = json_string_value(json_object_get(theirs, "rule")), *ours = model->optimizer.rule;
    const char *kind = json_string_value(json_object_get(json_object_get(theirs, "schedule"), "kind"));
    const char *schedule = iso_schedule_rule_of(&model->optimizer.schedule)->row.name;
    const char *constant = iso_schedule_constant.row.name;
    bool other = rule && strcmp(rule, ours) != 0;
    if (!other && (!kind || !strcmp(kind, constant) == !strcmp(schedule, constant)))
        return ISO_OK;
    return iso_error(
        ISO_INVALID,
        "it was written by a run with the %s '%s', this one has '%s': resume with '%s', or begin "
        "another run with --weights",
        other ? "optimizer" : "schedule", other ? rule : kind, other ? ours : schedule, other ? rule : kind);
}

static iso_status other_model(const json_t *state, iso_model *model, uint64_t theirs, uint64_t ours)
{
    iso_text text = {0};
    const char *rule = json_string_value(json_object_get(json_object_get(state, "optimizer"), "rule"));
    if (rule && strcmp(rule, model->optimizer.rule) != 0)
        return iso_error(
            ISO_INVALID,
            "it was written by another model: its optimizer is '%s', this one's '%s', and layers, "
            "their settings or variables may differ too",
            rule, model->optimizer.rule);
    iso_status status = iso_state_layer_differences(state, model, true, &text);
    if (status == ISO_OK && text.length)
        status = iso_error(ISO_INVALID, "it was written by another model: %s", iso_text_get(&text));
    else if (status == ISO_OK)
        status = iso_error(ISO_INVALID,
                           "it was written by another model: layers, their settings or variables differ (its "
                           "fingerprint is %016" PRIx64 ", this model's %016" PRIx64 ")",
                           theirs, ours);
    iso_text_free(&text);
    return status;
}

static iso_status check_model(const json_t *state, iso_model *model)
{
    uint64_t theirs = iso_state_hexadecimal(state, "model"), ours, of_layers;
    iso_status status;
    ISO_TRY(iso_model_hash(model, true, &ours));
    ISO_TRY(
        iso_model_hash(model, false, &of_layers)); /* of a checkpoint from before functions were recorded */
    if (theirs == ours || theirs == of_layers) {
        ISO_TRY(check_optimizer(state, model));
        return check_averages(state, model);
    }
    ISO_TRY(check_accumulation(state, model));
    status = other_model(state, model, theirs, ours);
done:
    return status;
}

static iso_status other_order(const json_t *state, const iso_training *t)
{
    const uint64_t seed = iso_state_hexadecimal(state, "seed");
    if (iso_state_has_other_stages(state, t))
        return iso_error(ISO_INVALID,
                         "it was written in the middle of an epoch, in which rows come in another order "
                         "than in this training: they are shuffled or split differently");
    return iso_error(
        ISO_INVALID,
        "it was written in the middle of an epoch, in which rows are shuffled with --seed %" PRIu64
        "; this training has --seed %" PRIu64 ": resume with --seed %" PRIu64
        ", or begin another run with --weights",
        seed, iso_graph_seed(t->model->graph), seed);
}

/* The position of the next step. In the middle of an epoch the batches must be the same. */
static iso_status read_cursor(const json_t *state, const iso_training *t, iso_training_cursor *cursor)
{
    const json_t *data = json_object_get(state, "data");
    int64_t epoch = 0, steps = 0, rows = 0, batch_size = 0;
    iso_status status;
    ISO_TRY(count_of(state, "epoch", &epoch));
    ISO_TRY(count_of(state, "batch", &cursor->batch));
    ISO_TRY(count_of(state, "step", &cursor->trained));
    ISO_TRY(count_of(state, "random_step", &cursor->random_step));
    ISO_TRY(count_of(state, "steps_per_epoch", &steps));
    ISO_TRY(count_of(data, "rows", &rows));
    ISO_TRY(count_of(data, "batch_size", &batch_size));
    if (epoch > INT32_MAX || cursor->batch > steps)
        return iso_error(ISO_INVALID,
                         "its state makes no sense: epoch %" PRId64 ", batch %" PRId64 " of %" PRId64, epoch,
                         cursor->batch, steps);
    cursor->epoch = (int)epoch;
    if (cursor->batch > 0 && (steps != t->steps || rows != iso_dataset_rows(t->data) ||
                              batch_size != iso_dataset_batch_size(t->data)))
        return iso_error(ISO_INVALID,
                         "it was written in the middle of an epoch of %" PRId64 " steps, %" PRId64
                         " rows in batches of %" PRId64 "; this training has %" PRId64 " steps, %" PRId64
                         " rows in batches of %" PRId64,
                         steps, rows, batch_size, t->steps, iso_dataset_rows(t->data),
                         iso_dataset_batch_size(t->data));
    if (cursor->batch > 0 && iso_state_has_other_order(state, t))
        status = other_order(state, t);
done:
    return status;
}

/* Reads a number, or a list of them. sums NULL: only checks them. */
static bool read_sums(const json_t *value, double *sums, int64_t count)
{
    double number;
    bool list = json_is_array(value);
    if (list ? (int64_t)json_array_size(value) != count : count != 1)
        return false;
    for (int64_t k = 0; k < count; k++) {
        if (!iso_json_get_number(list ? json_array_get(value, (size_t)k) : value, &number))
            return false;
        if (sums)
            sums[k] = number;
    }
    return true;
}

static iso_status check_running(const json_t *state)
{
    const json_t *running = json_object_get(state, "running"), *names = json_object_get(running, "names"),
                 *sums = json_object_get(running, "sums"), *weights = json_object_get(running, "weights");
    size_t count = json_array_size(names);
    bool good = json_is_array(names) && count <= ISO_MAX_VALUES && json_array_size(sums) == count;
    good = good && json_is_array(sums) && read_sums(weights, NULL, (int64_t)count);
    for (size_t i = 0; good && i < count; i++) {
        const json_t *of = json_array_get(sums, i);
        good = read_sums(of, NULL, json_is_array(of) ? (int64_t)json_array_size(of) : 1);
    }
    return good ? ISO_OK : iso_error(ISO_INVALID, "its state has no running sums of the metrics");
}

/* Whether a value has a name that older versions logged: every accuracy was "accuracy". */
static bool is_old_name(const char *old, const char *name)
{
    const char *accuracy = iso_metric_name(ISO_METRIC_ACCURACY);
    size_t length = strcspn(old, "0123456789"), own = strlen(accuracy);
    while (length > 0 && old[length - 1] == '_')
        length--;
    return length >= own && strncmp(old + length - own, accuracy, own) == 0 &&
           strstr(name, "_accuracy") != NULL;
}

/* The place of value k in the state's list, by its name; -1: there is none. */
static int find_running(const json_t *names, const iso_model *model, int k)
{
    int count = (int)json_array_size(names);
    for (int i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, (size_t)i)), *own = model->value_name[k];
        bool old = name && i == k && count == model->n_values && is_old_name(name, own);
        if (name && (old || strcmp(name, own) == 0))
            return i;
    }
    return -1;
}

/* Running sums are matched by name. Metrics that are new, or had another number of sums, begin in the
 * middle of the epoch. */
static void read_running(const json_t *state, iso_training *t)
{
    const json_t *running = json_object_get(state, "running");
    iso_totals_clear(&t->totals, t->model);
    for (int k = 0; k < t->model->n_values; k++) {
        const iso_value_rule *rule = &t->model->values[k];
        int i = find_running(json_object_get(running, "names"), t->model, k);
        if (i >= 0 && read_sums(json_array_get(json_object_get(running, "sums"), (size_t)i),
                                t->totals.sum + rule->at, rule->count))
            read_sums(json_array_get(json_object_get(running, "weights"), (size_t)i), &t->totals.weight[k],
                      1);
    }
}

static iso_status restore_callbacks(const json_t *state, iso_training *t)
{
    const json_t *callbacks = json_object_get(state, "callbacks");
    return callbacks && t->callbacks ? iso_callbacks_restore(t->callbacks, callbacks) : ISO_OK;
}

iso_status iso_state_check(const iso_saved_file *file, const json_t *state, const iso_training *training,
                           iso_training_cursor *cursor)
{
    iso_training_cursor read = {.epoch = 0};
    iso_status status;
    ISO_TRY(check_model(state, training->model));
    ISO_TRY(read_cursor(state, training, &read));
    ISO_TRY(check_running(state));
    *cursor = read;
done:
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "%s: ", iso_saved_file_path(file));
}

iso_status iso_state_restore(const iso_saved_file *file, const json_t *state,
                             const iso_training_cursor *cursor, iso_training *training)
{
    iso_state_warn_of_differences(iso_saved_file_path(file), state, training);
    training->cursor = *cursor;
    read_running(state, training);
    training->model->trained = cursor->trained;
    training->earlier =
        json_integer_value(json_object_get(state, "earlier_steps")); /* 0 if the state has none */
    iso_graph_set_steps(training->model->graph, (uint64_t)cursor->random_step);
    iso_status status = restore_callbacks(state, training);
    return status == ISO_OK ? ISO_OK : iso_error_prefix(status, "%s: ", iso_saved_file_path(file));
}
