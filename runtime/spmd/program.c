/* Programs: their storage, and the hash and text that tell them apart. */
#include "runtime/spmd/program.h"

#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"

iso_status iso_program_add_value(iso_program *program, iso_tensor *tensor, const iso_layout *layout, int step,
                                 int *value)
{
    iso_program_value fresh = {.tensor = tensor, .layout = *layout, .step = step, .next = -1};
    *value = program->n_values;
    return iso_list_add(program->values, program->n_values, fresh, "the values of a program");
}

iso_status iso_program_add_step(iso_program *program, iso_op *op, iso_program_step **step)
{
    iso_program_step fresh = {.op = op, .replicas = 1};
    iso_status status = iso_list_add(program->steps, program->n_steps, fresh, "the steps of a program");
    if (status == ISO_OK)
        *step = &program->steps[program->n_steps - 1];
    return status;
}

/* ---- old values ---- */

const iso_variable *iso_program_variable_under(const iso_program *program, int value)
{
    while (program->values[value].step >= 0) {
        const iso_program_step *step = &program->steps[program->values[value].step];
        if (!step->op || !step->op->type->no_kernel)
            return NULL;
        value = step->input[0];
    }
    const iso_op *producer = program->values[value].tensor->producer;
    return producer->type == &iso_op_variable ? ((const iso_variable_attrs *)producer->attrs)->variable
                                              : NULL;
}

/* Replaces a value that the end of the step would change before it is read by a copy. */
static iso_status program_keep(iso_program *program, const bool *changed, int *value)
{
    iso_program_step *step = NULL;
    int kept;
    const iso_variable *variable = iso_program_variable_under(program, *value);
    if (!variable || !changed[variable->id])
        return ISO_OK;
    iso_program_value from = program->values[*value];
    iso_status status = ISO_OK;
    ISO_TRY(iso_program_add_step(program, NULL, &step));
    ISO_TRY(iso_program_add_value(program, from.tensor, &from.layout, program->n_steps - 1, &kept));
    step->input[0] = *value;
    step->output[0] = *value = kept;
done:
    return status;
}

iso_status iso_program_keep_old_values(iso_program *program)
{
    iso_status status = ISO_OK;
    bool *changed = iso_new((size_t)program->graph->n_variables + 1);
    if (!changed)
        return iso_error(ISO_NO_MEMORY, "no memory for the updates of %d variables",
                         program->graph->n_variables);
    for (int i = 0; i < program->n_changes; i++)
        changed[program->changes[i].variable->id] = true;
    for (int i = 0; i < program->n_outputs; i++)
        ISO_TRY(program_keep(program, changed, &program->output_value[i]));
    for (int i = 0; i < program->n_changes; i++)
        if (!program->changes[i].apply)
            ISO_TRY(program_keep(program, changed, &program->changes[i].value));
done:
    iso_free(changed);
    return status;
}

void iso_program_destroy(iso_program *program)
{
    if (!program)
        return;
    iso_free(program->values);
    iso_free(program->steps);
    iso_free(program->changes);
    iso_free(program->variable_layout);
    iso_free(program->update_layout);
    iso_program_free_fused(program);
    iso_graph_destroy(program->decomposed);
    iso_free(program);
}

void iso_program_note(iso_program *program, const char *path, const iso_layout *layout)
{
    char text[ISO_LAYOUT_TEXT];
    uint64_t hash = iso_hash_text(program->placement, path);
    program->placement = iso_hash_text(hash, iso_layout_text(program->mesh, layout, text, sizeof text));
}

/* The text of a layout names only the axes of its windows, so the windows are hashed here. */
static uint64_t hash_windows(uint64_t hash, const iso_layout *layout)
{
    for (int d = 0; d < layout->rank; d++) {
        const iso_sliding_window *w = &layout->dim[d].window;
        if (iso_sharding_has_window(&layout->dim[d]))
            hash = iso_hash_bytes(hash, w, sizeof *w);
    }
    return hash;
}

uint64_t iso_program_hash(const iso_program *program)
{
    uint64_t hash = iso_hash_text(program->placement, program->mesh->text);
    for (int i = 0; i < program->n_values; i++) {
        const iso_program_value *value = &program->values[i];
        char text[256];
        hash = iso_hash_text(hash, iso_layout_text(program->mesh, &value->layout, text, sizeof text));
        hash = hash_windows(hash, &value->layout);
        hash = iso_hash_text(hash, iso_shape_text(&value->tensor->shape, text, sizeof text));
    }
    for (int i = 0; i < program->n_steps; i++) {
        const iso_program_step *step = &program->steps[i];
        hash = iso_hash_text(hash, step->op ? step->op->type->name : "reshard");
        hash = iso_hash_bytes(hash, step->input, sizeof step->input);
    }
    return hash;
}

void iso_program_list_steps(const iso_program *program, iso_text *lines)
{
    char shape[160], layout[256];
    iso_text_add(lines, "mesh %s\n", program->mesh->text);
    for (int i = 0; i < program->n_steps; i++) {
        const iso_program_step *step = &program->steps[i];
        const char *name = step->op ? step->op->type->name : "reshard";
        if (step->op && step->op->n_outputs == 0) {
            iso_text_add(lines, "op %d: %s\n", i, name);
            continue;
        }
        const iso_program_value *value = &program->values[step->output[0]];
        iso_text_add(lines, "op %d: %s to %s, layout (%s)\n", i, name,
                     iso_shape_text(&value->tensor->shape, shape, sizeof shape),
                     iso_layout_text(program->mesh, &value->layout, layout, sizeof layout));
    }
}
