/* Reading files into models and trainings. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/log.h"
#include "runtime/session/session.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/state_impl.h"

static iso_status check_compiled(const iso_model *model, const char *use)
{
    if (!model || !model->compiled)
        return iso_error(ISO_INVALID, "%s: the model is %s", use, model ? "not compiled" : "NULL");
    return ISO_OK;
}

iso_status iso_model_load_weights_with(iso_model *model, const iso_load_weights_options *given, size_t size)
{
    iso_load_weights_options options = {0};
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_saved_file *file = NULL;
    iso_function *predictor; /* variables of a model that is not compiled have values from then on */
    iso_status status;
    if (!model || model->status != ISO_OK)
        return check_compiled(model, "load_weights");
    iso_context *ctx = iso_graph_context(model->graph);
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    ISO_TRY(iso_saved_file_open(ctx, options.path, &file));
    ISO_TRY(iso_model_read_tensors(model, file,
                                   options.no_optimizer ? ISO_OPTIMIZER_LEFT : ISO_OPTIMIZER_IF_THERE));
done:
    iso_saved_file_close(file);
    return status;
}

iso_status iso_model_save_weights(iso_model *model, const char *path)
{
    iso_model_contents *contents = NULL;
    iso_saver *saver = NULL;
    iso_function *predictor; /* as in iso_model_load_weights */
    iso_status status;
    if (!model || model->status != ISO_OK)
        return check_compiled(model, "save_weights");
    iso_context *ctx = iso_graph_context(model->graph);
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    ISO_TRY(iso_agree(ctx, iso_model_contents_create(model, false, &contents)));
    ISO_TRY(iso_saver_create(ctx, &saver, .waits = true, .no_latest = true));
    ISO_TRY(iso_model_contents_save(contents, NULL, saver, path, false, NULL));
    ISO_TRY(iso_saver_wait(saver));
done:
    iso_saver_destroy(saver);
    iso_model_contents_destroy(contents);
    return status;
}

/* ---- going on ---- */

/* Tensors that callbacks keep, where the file has them. */
static iso_status read_callbacks(iso_training *t, iso_saved_file *file)
{
    iso_pieces pieces = {0};
    iso_status status = iso_callbacks_pieces(t->callbacks, &pieces);
    for (int i = 0; i < pieces.count && status == ISO_OK; i++) {
        int tensor = iso_saved_file_of(file, pieces.piece[i].path);
        if (tensor < 0)
            status = iso_error(ISO_INVALID, "%s has no '%s', which a callback keeps",
                               iso_saved_file_path(file), pieces.piece[i].path);
        else
            status = iso_saved_file_read_piece(file, tensor, &pieces.piece[i]);
    }
    iso_pieces_free(&pieces);
    return status;
}

static iso_status check_state(const iso_training *t, const iso_saved_file *file, json_t **state,
                              iso_place_in_training *place)
{
    iso_status status = iso_state_parse(file, state);
    if (status == ISO_OK && *state && !iso_saved_file_committed(file, NULL))
        return iso_error(ISO_INVALID,
                         "%s has no commit mark: it was cut off, or another program has written to it; its "
                         "weights may be loaded, but no training goes on from it",
                         iso_saved_file_path(file));
    if (status == ISO_OK && (!*state || !json_object_get(*state, "step")))
        status = iso_error(ISO_INVALID, "%s holds no state of a training, weights alone",
                           iso_saved_file_path(file));
    return status == ISO_OK ? iso_state_check(file, *state, t, place) : status;
}

iso_status iso_training_resume(iso_training *t, iso_saved_file *file)
{
    json_t *state = NULL;
    iso_place_in_training place;
    double rate;
    iso_status status;
    ISO_TRY(iso_agree(t->ctx, check_state(t, file, &state, &place)));
    ISO_TRY(iso_model_read_tensors(t->model, file, ISO_OPTIMIZER_NEEDED));
    status = iso_state_restore(file, state, &place, t);
    ISO_TRY(iso_agree(t->ctx, status == ISO_OK ? read_callbacks(t, file) : status));
    if (iso_state_has_other_rate(state, t, &rate))
        ISO_TRY(iso_model_set_learning_rate(t->model, rate));
done:
    json_decref(state);
    return status;
}

/* ---- make or restore ---- */

iso_status iso_find_newest(iso_context *ctx, const char *folder, const char *pattern, iso_saved_file **file)
{
    iso_text passed_over = {0};
    iso_status status = iso_checkpoint_find(ctx, folder, pattern, file, &passed_over);
    if (status == ISO_OK && passed_over.length > 0 && (!ctx || iso_is_chief(ctx)))
        iso_warn("passed over: %.*s", (int)passed_over.length - 1, iso_text_get(&passed_over));
    iso_text_free(&passed_over);
    return status;
}

iso_status iso_model_restore_or_create(iso_context *ctx, const char *folder,
                                       iso_model *(*build)(iso_context *ctx), iso_model **out)
{
    iso_saved_file *file = NULL;
    iso_status status = ISO_OK;
    if (!folder || !build)
        status = iso_error(ISO_INVALID, "restore_or_create: the %s is NULL", folder ? "builder" : "folder");
    ISO_TRY(iso_agree(ctx, status));
    ISO_TRY(iso_find_newest(ctx, folder, NULL, &file));
    iso_model *model = build(ctx);
    ISO_TRY(iso_agree(ctx, model ? ISO_OK : iso_error(ISO_INVALID, "the builder gave no model")));
    if (model->status == ISO_OK) {
        model->initial = file;
        file = NULL;
    }
    *out = model;
done:
    iso_saved_file_close(file);
    return status;
}
