/* Reads files into models and trainings. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/session/session.h"
#include "runtime/session/tuning_choices.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/resumption.h"
#include "runtime/train/state_impl.h"
#include "runtime/train/weights.h"

static iso_status check_compiled(const iso_model *model, const char *use)
{
    if (!model || !model->compiled)
        return iso_error(ISO_INVALID, "%s: the model is %s", use, model ? "not compiled" : "NULL");
    return ISO_OK;
}

/* The chief warns of weights that were trained in another precision, or by a model of other settings. */
static iso_status compare_model(iso_model *model, const iso_saved_file *file)
{
    json_t *state = NULL;
    if (!iso_is_chief(iso_graph_context(model->graph)))
        return ISO_OK;
    iso_status status = iso_state_parse(file, &state);
    if (status == ISO_OK && state)
        status = iso_state_warn_of_model(iso_saved_file_path(file), state, model, NULL);
    json_decref(state);
    return status;
}

iso_status iso_model_load_weights_with(iso_model *model, const iso_load_weights_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_load_weights_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    iso_saved_file *file = NULL;
    iso_function *predictor; /* a model that is not compiled gets its variables' values here */
    iso_status status;
    if (!model || model->status != ISO_OK)
        return check_compiled(model, "load_weights");
    iso_context *ctx = iso_graph_context(model->graph);
    ISO_NEED_AGREED_AS(ctx, "path", options.path);
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    ISO_TRY(iso_checkpoint_open(ctx, "load_weights", options.path, &file));
    if (options.name)
        ISO_TRY(iso_agree(ctx, iso_saved_file_set_path(file, options.name)));
    iso_saved_file_close(model->initial); /* compiling must no longer read the optimizer's state from it */
    model->initial = NULL;
    ISO_TRY(iso_model_read_tensors(model, file,
                                   options.no_optimizer ? ISO_OPTIMIZER_LEFT : ISO_OPTIMIZER_IF_THERE));
    ISO_TRY(iso_agree(ctx, compare_model(model, file)));
done:
    iso_saved_file_close(file);
    return status;
}

iso_status iso_model_save_weights(iso_model *model, const char *path)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_state_dict *contents = NULL;
    iso_saver *saver = NULL;
    iso_function *predictor; /* as in iso_model_load_weights */
    iso_status status;
    if (!model || model->status != ISO_OK)
        return check_compiled(model, "save_weights");
    iso_context *ctx = iso_graph_context(model->graph);
    ISO_NEED_AGREED(ctx, path);
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    ISO_TRY(iso_agree(ctx, iso_state_dict_create(model, false, &contents)));
    ISO_TRY(iso_saver_create(ctx, &saver, .waits = true, .no_latest = true));
    ISO_TRY(iso_state_dict_save(contents, NULL, saver, path, false));
    ISO_TRY(iso_saver_wait(saver));
done:
    iso_saver_destroy(saver);
    iso_state_dict_destroy(contents);
    return status;
}

static iso_status visit_all(iso_model *model, iso_status (*visit)(void *user, const iso_state_shard *shard),
                            void *user)
{
    iso_state_shards shards = {0};
    iso_status status = iso_graph_shards(model->graph, &shards);
    for (int i = 0; i < shards.count && status == ISO_OK; i++)
        if (!iso_path_below_optimizer(shards.shards[i].path))
            status = visit(user, &shards.shards[i]);
    iso_state_shards_free(&shards);
    return status;
}

iso_status iso_model_visit_weights(iso_model *model, const char *what, iso_weights_use use,
                                   iso_status (*visit)(void *user, const iso_state_shard *shard), void *user)
{
    iso_function *predictor; /* as in iso_model_load_weights */
    iso_status status;
    if (model->status != ISO_OK)
        return check_compiled(model, what);
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    if (use == ISO_WEIGHTS_REPLACE) {
        iso_saved_file_close(model->initial);
        model->initial = NULL;
    }
    ISO_TRY(iso_agree(iso_graph_context(model->graph), visit_all(model, visit, user)));
done:
    return status;
}

/* ---- resuming ---- */

/* Reads the callbacks' tensors that the file has. */
static iso_status read_callbacks(iso_training *t, iso_saved_file *file)
{
    iso_state_shards shards = {0};
    iso_status status = iso_callbacks_shards(t->callbacks, &shards);
    for (int i = 0; i < shards.count && status == ISO_OK; i++) {
        int tensor = iso_saved_file_of(file, shards.shards[i].path);
        if (tensor < 0)
            status = iso_error(ISO_INVALID, "%s has no '%s', which a callback keeps",
                               iso_saved_file_path(file), shards.shards[i].path);
        else
            status = iso_saved_file_read_shard(file, tensor, &shards.shards[i]);
    }
    iso_state_shards_free(&shards);
    return status;
}

iso_status iso_resumption_check_committed(const iso_saved_file *file)
{
    if (iso_saved_file_committed(file, NULL))
        return ISO_OK;
    return iso_error(ISO_INVALID,
                     "%s has no commit record: it was cut off, or another program has written to it; its "
                     "weights may be loaded, but no training can resume from it",
                     iso_saved_file_path(file));
}

static iso_status check_state(const iso_training *t, const iso_saved_file *file, json_t **state,
                              iso_training_cursor *cursor)
{
    iso_status status = iso_state_parse(file, state);
    if (status == ISO_OK && *state)
        status = iso_resumption_check_committed(file);
    if (status == ISO_OK && (!*state || !json_object_get(*state, "step")))
        status = iso_error(ISO_INVALID, "%s holds weights, but no training state", iso_saved_file_path(file));
    return status == ISO_OK ? iso_state_check(file, *state, t, cursor) : status;
}

iso_status iso_training_resume(iso_training *t, iso_saved_file *file)
{
    json_t *state = NULL;
    iso_training_cursor cursor;
    double rate;
    iso_status status;
    status = check_state(t, file, &state, &cursor);
    if (status == ISO_OK)
        status =
            iso_tuning_choices_resume(t->ctx, iso_saved_file_path(file), json_object_get(state, "tuning"));
    ISO_TRY(iso_agree(t->ctx, status));
    ISO_TRY(iso_model_read_tensors(t->model, file, ISO_OPTIMIZER_NEEDED));
    status = iso_state_restore(file, state, &cursor, t);
    ISO_TRY(iso_agree(t->ctx, status == ISO_OK ? read_callbacks(t, file) : status));
    if (iso_state_has_other_rate(state, t, &rate))
        ISO_TRY(iso_model_set_learning_rate(t->model, rate));
done:
    json_decref(state);
    return status;
}

/* ---- restore or create ---- */

static iso_status read_steps(iso_model *model, const iso_saved_file *file)
{
    json_t *state = NULL;
    iso_status status = iso_state_parse(file, &state);
    if (status != ISO_OK)
        return status;
    iso_graph_set_steps(model->graph, (uint64_t)json_integer_value(json_object_get(state, "random_step")));
    model->trained = json_integer_value(json_object_get(state, "step"));
    json_decref(state);
    return ISO_OK;
}

/* Reads the weights as soon as variables have values (iso_graph_set_restore). */
static iso_status read_initial_weights(void *user)
{
    iso_model *model = user;
    iso_context *ctx = iso_graph_context(model->graph);
    iso_status status;
    if (!model->initial) /* other weights have been loaded since */
        return ISO_OK;
    ISO_TRY(iso_model_read_tensors(model, model->initial, ISO_OPTIMIZER_LEFT));
    ISO_TRY(iso_agree(ctx, read_steps(model, model->initial)));
    ISO_TRY(iso_agree(ctx, compare_model(model, model->initial)));
done:
    return status;
}

iso_status iso_model_read_initial_optimizer(iso_model *model)
{
    iso_status status = ISO_OK;
    if (model->initial)
        status = iso_model_read_tensors(model, model->initial, ISO_OPTIMIZER_ALONE);
    if (status != ISO_OK)
        return status;
    iso_saved_file_close(model->initial);
    model->initial = NULL;
    return ISO_OK;
}

/* If the builder has made functions (compiling makes some), the variables have values now. */
static iso_status begin_with(iso_model *model, iso_saved_file *file)
{
    iso_status status = ISO_OK;
    model->initial = file;
    if (!iso_graph_mesh(model->graph)) {
        iso_graph_set_restore(model->graph, read_initial_weights, model);
        return ISO_OK;
    }
    ISO_TRY(read_initial_weights(model));
    if (model->compiled)
        ISO_TRY(iso_model_read_initial_optimizer(model));
done:
    return status;
}

/* Before the builder makes plans. */
static iso_status take_choices(iso_context *ctx, const iso_saved_file *file)
{
    json_t *state = NULL;
    iso_status status = file ? iso_state_parse(file, &state) : ISO_OK;
    if (status == ISO_OK && state)
        status = iso_tuning_choices_resume(ctx, iso_saved_file_path(file), json_object_get(state, "tuning"));
    json_decref(state);
    return status;
}

iso_status iso_model_restore_or_create(iso_context *ctx, const char *folder,
                                       iso_model *(*build)(iso_context *ctx), iso_model **out)
{
    ISO_DEFAULT_MODES();
    iso_saved_file *file = NULL;
    iso_status status = ISO_OK;
    if (!ctx || !folder || !build || !out)
        status = iso_null_argument(__func__, "ctx, folder, build, model",
                                   !ctx      ? 0
                                   : !folder ? 1
                                   : !build  ? 2
                                             : 3);
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_checkpoint_newest(ctx, __func__, folder, NULL, &file));
    ISO_TRY(iso_agree(ctx, take_choices(ctx, file)));
    iso_model *model = build(ctx);
    ISO_TRY(iso_agree(ctx, model ? ISO_OK : iso_error(ISO_INVALID, "the builder returned no model")));
    if (file && model->status == ISO_OK) {
        status = begin_with(model, file);
        file = NULL; /* the model owns it now */
    }
    if (status == ISO_OK)
        *out = model;
    else
        iso_model_destroy(model);
done:
    iso_saved_file_close(file);
    return status;
}
