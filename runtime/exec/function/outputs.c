/* The outputs of a step: parts in the memory of the slots, and whole outputs on the host. */
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/function/function_impl.h"

void iso_function_unmap_parts(iso_function *function)
{
    for (int i = 0; function->stepped && i < function->program->n_outputs * function->runtime->n_locals; i++)
        iso_unmap(ISO_OK, &function->part[i]);
    function->stepped = NULL;
}

/* Whether a slot is the first of those that hold the same part of a value. */
static bool is_first_holder(const iso_mesh *mesh, const iso_layout *layout, int slot)
{
    uint32_t cuts = iso_layout_sharded_axes(layout);
    for (int axis = 0; axis < mesh->n_axes; axis++)
        if (!(cuts & 1u << axis) && iso_mesh_coordinate(mesh, slot, axis) != 0)
            return false;
    return true;
}

/* A part of the last step's outputs, with its address in the slots' memory. */
static iso_output_part part_in_memory(const iso_function *function, int index)
{
    const iso_runtime *runtime = function->runtime;
    const iso_executable *executable = function->stepped;
    int output = index / runtime->n_locals, local = index % runtime->n_locals;
    int value = function->program->output_value[output], slot = runtime->locals[local].slot;
    const iso_program_value *of = &function->program->values[value];
    iso_output_part part = {.output = output, .dtype = of->tensor->dtype};
    part.box = iso_plan_box(executable->plan, value, slot);
    if (iso_box_count(&part.box) > 0 && is_first_holder(runtime->mesh, &of->layout, slot))
        part.data = iso_executable_value(runtime, executable, local, value);
    return part;
}

int iso_function_part_count(const iso_function *function)
{
    if (ISO_ANY_NULL(function))
        return 0;
    return function->stepped ? function->program->n_outputs * function->runtime->n_locals : 0;
}

static iso_stream *stream_of_part(const iso_function *function, int index)
{
    return function->runtime->locals[index % function->runtime->n_locals].stream;
}

static iso_status map_parts(iso_function *function)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_function_part_count(function); i++) {
        iso_output_part part = part_in_memory(function, i);
        size_t bytes = (size_t)iso_box_count(&part.box) * iso_dtype_size(part.dtype);
        if (part.data)
            ISO_TRY(iso_map(stream_of_part(function, i), part.data, bytes, &function->part[i]));
    }
done:
    return status;
}

iso_status iso_function_step(iso_function *function, const iso_batch *batch)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_executable *executable;
    if (!function->parts)
        return iso_error(ISO_INVALID, "function '%s' was made without .parts", function->name);
    iso_status status = iso_function_take_step(function, batch, ISO_OK, &executable);
    if (status != ISO_OK)
        return status;
    function->stepped = executable;
    return iso_runtime_agree_copied(function->runtime, map_parts(function));
}

iso_output_part iso_function_part(const iso_function *function, int index)
{
    if (ISO_ANY_NULL(function))
        return (iso_output_part){.output = -1};
    if (index < 0 || index >= iso_function_part_count(function))
        return (iso_output_part){.output = -1};
    iso_output_part part = part_in_memory(function, index);
    part.data = function->part[index].data;
    return part;
}

/* A whole output, from slot 0, as doubles; zeros on a rank without slots. */
static iso_status read_output(const iso_function *function, const iso_executable *executable, int output,
                              double *out)
{
    const iso_runtime *runtime = function->runtime;
    int value = function->program->output_value[output];
    iso_dtype dtype = function->program->values[value].tensor->dtype;
    iso_shape shape = iso_plan_shape(executable->plan, value);
    iso_box box = iso_box_whole(&shape);
    int64_t count = iso_box_count(&box);
    iso_mapping mapping;
    if (runtime->n_locals == 0) {
        memset(out, 0, (size_t)count * sizeof *out);
        return ISO_OK;
    }
    iso_status status =
        iso_map(runtime->locals[0].stream, iso_executable_value(runtime, executable, 0, value),
                (size_t)count * iso_dtype_size(dtype), &mapping);
    if (status != ISO_OK)
        return status;
    for (int64_t i = 0; i < count; i++)
        out[i] = iso_element_get(mapping.data, dtype, i);
    return iso_unmap(ISO_OK, &mapping);
}

iso_status iso_function_evaluate(iso_function *function, const iso_batch *batch, double *const *outputs)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(function);
    iso_runtime *runtime = function->runtime;
    const iso_program *program = function->program;
    iso_executable *executable;
    iso_status status = ISO_OK;
    if (function->parts)
        return iso_error(ISO_INVALID, "function '%s' was made with .parts", function->name);
    iso_status refused = program->n_outputs > 0 && ISO_ANY_NULL(outputs) ? ISO_INVALID : ISO_OK;
    for (int i = 0; refused == ISO_OK && i < program->n_outputs; i++)
        if (!outputs[i])
            refused = iso_error(ISO_INVALID, "iso_function_evaluate: outputs[%d] is NULL", i);
    ISO_TRY(iso_function_take_step(function, batch, refused, &executable));
    for (int o = 0; o < program->n_outputs; o++) {
        int value = program->output_value[o];
        iso_shape shape = iso_plan_shape(executable->plan, value);
        iso_box box = iso_box_whole(&shape);
        ISO_TRY(iso_runtime_agree_copied(runtime, read_output(function, executable, o, outputs[o])));
        if (runtime->idle_ranks)
            ISO_TRY(iso_broadcast_unchecked(runtime->ctx, runtime->mesh->rank_of_slot[0], outputs[o],
                                            (size_t)iso_box_count(&box) * sizeof *outputs[o]));
    }
done:
    return status;
}
