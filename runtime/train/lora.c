/* Merges low-rank adapters into what they adapt. */
#include "runtime/train/lora.h"

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function.h"
#include "runtime/graph/lora.h"
#include "runtime/graph/pending.h"
#include "runtime/train/model_impl.h"

int iso_model_adapter_count(const iso_model *model)
{
    int count = 0;
    if (ISO_ANY_NULL(model))
        return 0;
    for (int i = 0; !model->merged && i < iso_graph_variable_count(model->graph); i++)
        count += iso_variable_adapter(iso_graph_variable(model->graph, i)) != NULL;
    return count;
}

/* One step that changes the kernels. */
static iso_status add_products(iso_graph *graph)
{
    iso_update *update = NULL;
    iso_function *function = NULL;
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        iso_variable *variable = iso_graph_variable(graph, i);
        const iso_adapter *adapter = iso_variable_adapter(variable);
        if (adapter)
            update = iso_update_join(update, iso_assign(variable, adapter->merged));
    }
    iso_status status =
        iso_function_create(graph, &function, .updates = {update}, .name = "merging of adapters");
    if (status == ISO_OK)
        status = iso_function_run(function, NULL, NULL);
    iso_function_destroy(function);
    return status;
}

static iso_status clear_b(iso_graph *graph, const iso_adapter *adapter)
{
    int64_t count = 0;
    iso_status status = iso_shape_count(iso_variable_shape(adapter->b), &count);
    double *zeros = iso_new((size_t)count * sizeof *zeros + 1);
    status = iso_agree(iso_graph_context(graph), zeros ? status : iso_no_memory("zeros of an adapter"));
    if (status == ISO_OK)
        status = iso_variable_assign(adapter->b, zeros, count);
    iso_free(zeros);
    return status;
}

iso_status iso_model_merge_adapters(iso_model *model)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(model);
    iso_function *predictor; /* a model that is not compiled gets its variables' values here */
    iso_status status = ISO_OK;
    if (model->status != ISO_OK)
        return iso_error(model->status, "no memory for a model");
    iso_graph *graph = model->graph;
    ISO_TRY(iso_agree(iso_graph_context(graph), iso_graph_take_error(graph)));
    if (iso_model_adapter_count(model) == 0)
        return ISO_OK;
    if (!model->compiled)
        ISO_TRY(iso_model_predictor(model, true, &predictor));
    ISO_TRY(add_products(graph));
    for (int i = 0; i < iso_graph_variable_count(graph); i++) {
        const iso_adapter *adapter = iso_variable_adapter(iso_graph_variable(graph, i));
        if (adapter)
            ISO_TRY(clear_b(graph, adapter));
    }
    model->merged = true;
done:
    return status;
}
