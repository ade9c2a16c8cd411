/* The learning rate of a compiled model, between steps. */
#include <math.h>
#include <stdio.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/thread_modes.h"
#include "runtime/train/model_impl.h"

static iso_status read_optimizer(iso_model *model, const char *path, double *value)
{
    iso_variable *variable = iso_graph_find_variable(model->graph, path);
    if (!model->compiled || !variable)
        return iso_error(ISO_INVALID, "the model has no learning rate before it is compiled (iso_compile)");
    return iso_variable_read(variable, value, 1);
}

iso_status iso_model_learning_rate(iso_model *model, double *rate)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    ISO_NEED_AGREED(iso_graph_context(model->graph), rate);
    double own, iteration;
    iso_status status = ISO_OK;
    ISO_TRY(read_optimizer(model, "optimizer/learning_rate", &own));
    ISO_TRY(read_optimizer(model, "optimizer/iteration", &iteration));
    *rate = iso_schedule_rate(&model->optimizer, (int64_t)iteration, own);
done:
    return status;
}

iso_status iso_model_check_learning_rate(const iso_model *model, const char *who)
{
    if (model->optimizer.schedule.kind == ISO_SCHEDULE_CONSTANT)
        return ISO_OK;
    return iso_error(ISO_INVALID, "%s cannot set the learning rate: the optimizer follows a schedule", who);
}

static iso_status check_rate(const iso_model *model, const iso_variable *variable, double rate)
{
    if (!model->compiled || !variable)
        return iso_error(ISO_INVALID, "the model has no learning rate before it is compiled (iso_compile)");
    if (!isfinite(rate) || rate < 0)
        return iso_error(ISO_INVALID, "a learning rate of %g: it must be a number of at least 0", rate);
    return iso_model_check_learning_rate(model, "iso_model_set_learning_rate");
}

iso_status iso_model_set_learning_rate(iso_model *model, double rate)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    char text[64];
    iso_status status = ISO_OK;
    iso_context *ctx = iso_graph_context(model->graph);
    iso_variable *variable = iso_graph_find_variable(model->graph, "optimizer/learning_rate");
    ISO_TRY(iso_agree(ctx, check_rate(model, variable, rate)));
    snprintf(text, sizeof text, "%.17g", rate);
    ISO_TRY(iso_agree_same(ctx, "the learning rate", iso_hash_bytes(0, &rate, sizeof rate), text));
    ISO_TRY(iso_variable_assign(variable, &rate, 1));
done:
    return status;
}
