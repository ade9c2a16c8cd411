/* Programs: their storage, and the hash and text that tell them apart. */
#include "runtime/spmd/program.h"

#include <inttypes.h>

#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/graph/schedules/rule.h"

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
    iso_text_free(&program->noted);
    iso_graph_destroy(program->decomposed);
    iso_free(program);
}

void iso_program_note(iso_program *program, const char *path, const iso_layout *layout)
{
    char text[ISO_LAYOUT_TEXT];
    iso_layout_text(program->mesh, layout, text, sizeof text);
    program->placement = iso_hash_text(iso_hash_text(program->placement, path), text);
    iso_text_add(&program->noted, "layout of '%s': (%s)\n", path, text);
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

static int64_t constant_count(const iso_constant_attrs *constant)
{
    int64_t count = 1;
    for (int d = 0; d < constant->shape.rank; d++)
        count *= constant->shape.dim[d];
    return count;
}

/* What tells a value without a step from others of its shape: its name or path, or its numbers. */
static uint64_t hash_source(uint64_t hash, const iso_op *op)
{
    if (op->type == &iso_op_input)
        return iso_hash_text(hash, ((const iso_input_attrs *)op->attrs)->name);
    if (op->type == &iso_op_variable)
        return iso_hash_text(hash, ((const iso_variable_attrs *)op->attrs)->variable->path);
    if (op->type != &iso_op_constant)
        return hash;
    const iso_constant_attrs *constant = op->attrs;
    uint64_t content = iso_hash_content(constant->values, (size_t)constant_count(constant) * sizeof(double));
    return iso_hash_bytes(hash, &content, sizeof content);
}

static uint64_t hash_settings(uint64_t hash, const iso_setting *settings, const void *values)
{
    for (; settings && settings->name; settings++) {
        double value = iso_setting_get(settings, values);
        hash = iso_hash_bytes(hash, &value, sizeof value);
    }
    return hash;
}

static uint64_t hash_change(uint64_t hash, const iso_program_change *change)
{
    hash = iso_hash_text(hash, change->variable->path);
    hash = iso_hash_bytes(hash, &change->value, sizeof change->value);
    if (!change->apply)
        return hash;
    const iso_optimizer *optimizer = &((const iso_apply_attrs *)change->apply->attrs)->optimizer;
    hash = iso_hash_text(hash, optimizer->rule);
    hash = iso_hash_bytes(hash, optimizer->hyper, sizeof optimizer->hyper);
    hash = hash_settings(hash, iso_schedule_members, &optimizer->schedule);
    return hash_settings(hash, iso_optimizer_settings, optimizer);
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
        hash = iso_hash_bytes(hash, &value->tensor->dtype, sizeof value->tensor->dtype);
        if (value->step < 0)
            hash = hash_source(hash, value->tensor->producer);
    }
    for (int i = 0; i < program->n_steps; i++) {
        const iso_program_step *step = &program->steps[i];
        hash = iso_hash_text(hash, step->op ? step->op->type->name : "reshard");
        hash = iso_hash_bytes(hash, step->input, sizeof step->input);
        if (step->op)
            hash = hash_settings(hash, step->op->type->settings, step->op->attrs);
    }
    for (int i = 0; i < program->n_changes; i++)
        hash = hash_change(hash, &program->changes[i]);
    return hash;
}

static void list_settings(const iso_setting *settings, const void *values, iso_text *lines)
{
    for (; settings && settings->name; settings++)
        iso_text_add(lines, ", %s = %.17g", settings->name, iso_setting_get(settings, values));
}

static void list_source(const iso_program *program, const iso_program_value *value, iso_text *lines)
{
    char shape[160], layout[256];
    const iso_op *op = value->tensor->producer;
    const iso_constant_attrs *constant = op->type == &iso_op_constant ? op->attrs : NULL;
    iso_text_add(lines, "%s", op->type->name);
    if (op->type == &iso_op_input)
        iso_text_add(lines, " '%s'", ((const iso_input_attrs *)op->attrs)->name);
    if (op->type == &iso_op_variable)
        iso_text_add(lines, " '%s'", ((const iso_variable_attrs *)op->attrs)->variable->path);
    iso_text_add(lines, ": %s%s, layout (%s)", iso_dtype_name(value->tensor->dtype),
                 iso_shape_text(&value->tensor->shape, shape, sizeof shape),
                 iso_layout_text(program->mesh, &value->layout, layout, sizeof layout));
    if (constant)
        iso_text_add(lines, ", first value %.17g, hash of values %016" PRIx64,
                     constant_count(constant) > 0 ? constant->values[0] : 0, hash_source(0, op));
    iso_text_add(lines, "\n");
}

static void list_change(const iso_program_change *change, iso_text *lines)
{
    iso_text_add(lines, "%s '%s'", change->apply ? "update of" : "assignment to", change->variable->path);
    if (change->apply) {
        const iso_optimizer *optimizer = &((const iso_apply_attrs *)change->apply->attrs)->optimizer;
        const iso_setting *own = iso_optimizer_rule_find(optimizer->rule)->row.setting;
        iso_text_add(lines, ", %s", optimizer->rule);
        list_settings(iso_optimizer_settings, optimizer, lines);
        list_settings(iso_schedule_members, &optimizer->schedule, lines);
        for (int i = 0; own[i].name; i++)
            iso_text_add(lines, ", %s = %.17g", own[i].name, optimizer->hyper[i]);
    }
    iso_text_add(lines, "\n");
}

static void list_step(const iso_program *program, int number, iso_text *lines)
{
    char shape[160], layout[256];
    const iso_program_step *step = &program->steps[number];
    iso_text_add(lines, "op %d: %s", number, step->op ? step->op->type->name : "reshard");
    if (!step->op || step->op->n_outputs > 0) {
        const iso_program_value *value = &program->values[step->output[0]];
        iso_text_add(lines, " to %s, layout (%s)", iso_shape_text(&value->tensor->shape, shape, sizeof shape),
                     iso_layout_text(program->mesh, &value->layout, layout, sizeof layout));
    }
    if (step->op)
        list_settings(step->op->type->settings, step->op->attrs, lines);
    for (int i = 0; step->op && i < step->op->n_inputs; i++)
        iso_text_add(lines, "%s%d", i ? ", " : ", of values ", step->input[i]);
    iso_text_add(lines, "\n");
}

void iso_program_list_steps(const iso_program *program, iso_text *lines)
{
    iso_text_add(lines, "mesh %s\n", program->mesh->text);
    iso_text_add(lines, "%sno other layout is given\n", iso_text_get(&program->noted));
    for (int i = 0; i < program->n_values; i++)
        if (program->values[i].step < 0)
            list_source(program, &program->values[i], lines);
    for (int i = 0; i < program->n_steps; i++)
        list_step(program, i, lines);
    for (int i = 0; i < program->n_changes; i++)
        list_change(&program->changes[i], lines);
}
