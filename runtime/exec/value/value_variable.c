/* Variables as values, and values assigned to variables. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/value/value_impl.h"

static iso_status copy_variable(const iso_runtime *runtime, const iso_variable *variable,
                                iso_value_site *site, iso_value **out)
{
    iso_value *value;
    iso_status status = iso_value_allocate(site, &runtime->variables[variable->id].layout, variable->dtype,
                                           &variable->shape, &value);
    if (status != ISO_OK)
        return status;
    for (int l = 0; l < value->n_locals; l++) {
        iso_box box = iso_value_local_box(value, l);
        size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(variable->dtype);
        const void *from = iso_runtime_variable(runtime, variable, site->slot[l]);
        runtime->device->copy(runtime->stream_of_slot[site->slot[l]], value->part[l], from, bytes);
    }
    *out = value;
    return iso_runtime_finish(runtime);
}

iso_status iso_variable_read_value(iso_variable *variable, iso_value **out)
{
    ISO_DEFAULT_MODES();
    iso_runtime *runtime = NULL;
    iso_value_site *site;
    iso_value *value = NULL;
    iso_status status = ISO_OK;
    ISO_NEED(variable);
    ISO_NEED_AGREED_AS(variable->graph->ctx, "value", out);
    ISO_TRY(
        iso_agree(variable->graph->ctx, iso_variable_placed(variable, "iso_variable_read_value", &runtime)));
    ISO_TRY(iso_agree_same_text(runtime->ctx, "the variable to be read", variable->path));
    ISO_TRY(iso_value_site_get(runtime->distribution->mesh, &site));
    iso_step_send_deferred_weights(runtime);
    ISO_TRY(iso_agree(runtime->ctx, copy_variable(runtime, variable, site, &value)));
    *out = value;
    return ISO_OK;
done:
    iso_value_destroy(value);
    return status;
}

static iso_status value_variable_check(const iso_variable *variable, iso_value *value, iso_runtime **runtime)
{
    iso_text what = {0};
    iso_status status = ISO_OK;
    if (!value)
        return iso_null_argument("iso_variable_assign_value", "value", 0);
    ISO_TRY(iso_variable_placed(variable, "iso_variable_assign_value", runtime));
    iso_text_add(&what, "variable '%s'", variable->path);
    ISO_TRY(iso_value_check(value, iso_text_get(&what), (*runtime)->mesh, variable->dtype, &variable->shape));
done:
    iso_text_free(&what);
    return status;
}

static iso_status agree_on_value(const iso_variable *variable, const iso_value *value)
{
    iso_text text = {0};
    iso_text_add(&text, "%s: ", variable->path);
    iso_value_describe(value, &text);
    iso_status status =
        iso_agree_same_text(variable->graph->ctx, "the value of a variable", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_status iso_variable_assign_value(iso_variable *variable, iso_value *value)
{
    ISO_DEFAULT_MODES();
    iso_runtime *runtime = NULL;
    iso_value *resharded = NULL;
    iso_status status = ISO_OK;
    ISO_NEED(variable);
    ISO_TRY(iso_agree(variable->graph->ctx, value_variable_check(variable, value, &runtime)));
    ISO_TRY(agree_on_value(variable, value));
    ISO_TRY(iso_value_to_layout(value, &runtime->variables[variable->id].layout, &resharded));
    iso_step_send_deferred_weights(runtime);
    const iso_value *from = resharded ? resharded : value;
    for (int l = 0; l < from->n_locals; l++) {
        int slot = from->site->slot[l];
        iso_box box = iso_value_local_box(from, l);
        size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(variable->dtype);
        if (iso_runtime_first_in_domain(runtime, variable, slot))
            runtime->device->copy(runtime->stream_of_slot[slot],
                                  iso_runtime_variable(runtime, variable, slot), from->part[l], bytes);
    }
    /* no rank runs a step before all have written */
    ISO_TRY(iso_agree(runtime->ctx, iso_runtime_finish(runtime)));
done:
    iso_value_destroy(resharded);
    return status;
}
