/* Programs: their storage, and the text that tells them apart. */
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
        return iso_no_memory("the updates of %d variables", program->graph->n_variables);
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
    iso_text_add(&program->noted, "layout of '%s': (%s)\n", path, text);
}

/* ---- as text ---- */

static void list_value(const iso_program *program, const iso_program_value *value, iso_text *lines)
{
    char shape[160], layout[256];
    iso_text_add(lines, "%s%s, layout (%s)", iso_dtype_name(value->tensor->dtype),
                 iso_shape_text(&value->tensor->shape, shape, sizeof shape),
                 iso_layout_text(program->mesh, &value->layout, layout, sizeof layout));
    for (int d = 0; d < value->layout.rank; d++) { /* of its windows the layout's text names only the axes */
        const iso_sliding_window *w = &value->layout.dim[d].window;
        if (iso_sharding_has_window(&value->layout.dim[d]))
            iso_text_add(lines,
                         ", dimension %d in %" PRId64 " windows of %" PRId64 ", stride %" PRId64
                         ", dilation %" PRId64 ", %" PRId64 " before",
                         d, w->positions, w->size, w->stride, w->dilation, w->before);
    }
}

/* Lists the source of a value: its name or path, or its numbers. */
static void list_source(const iso_program *program, const iso_program_value *value, iso_text *lines)
{
    const iso_op *op = value->tensor->producer;
    iso_text_add(lines, "%s", op->type->name);
    if (op->type == &iso_op_input)
        iso_text_add(lines, " '%s'", ((const iso_input_attrs *)op->attrs)->name);
    if (op->type == &iso_op_variable)
        iso_text_add(lines, " '%s'", ((const iso_variable_attrs *)op->attrs)->variable->path);
    iso_text_add(lines, ": ");
    list_value(program, value, lines);
    if (op->type == &iso_op_constant) {
        const iso_constant_attrs *constant = op->attrs;
        iso_box all = iso_box_whole(&constant->shape);
        size_t count = (size_t)iso_box_count(&all);
        iso_text_add(lines, ", first value %.17g, hash of values %016" PRIx64,
                     count ? constant->values[0] : 0,
                     iso_hash_content(constant->values, count * sizeof(double)));
    }
    iso_text_add(lines, "\n");
}

static void list_settings(const iso_setting *settings, const void *values, iso_text *lines)
{
    for (; settings && settings->name; settings++)
        iso_text_add(lines, ", %s = %.17g", settings->name, iso_setting_get(settings, values));
}

static void list_step(const iso_program *program, int number, iso_text *lines)
{
    const iso_program_step *step = &program->steps[number];
    int inputs = step->op ? step->op->n_inputs : 1, outputs = step->op ? step->op->n_outputs : 1;
    iso_text_add(lines, "op %d: %s", number, step->op ? step->op->type->name : "reshard");
    for (int i = 0; i < outputs; i++) {
        iso_text_add(lines, "%s", i ? ", " : " to ");
        list_value(program, &program->values[step->output[i]], lines);
    }
    if (step->op)
        list_settings(step->op->type->settings, step->op->attrs, lines);
    for (int i = 0; i < inputs; i++)
        iso_text_add(lines, "%s%d", i ? ", " : ", of values ", step->input[i]);
    iso_text_add(lines, "\n");
}

static void list_change(const iso_program_change *change, iso_text *lines)
{
    iso_text_add(lines, "%s '%s' by value %d", change->apply ? "update of" : "assignment to",
                 change->variable->path, change->value);
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

void iso_program_list(const iso_program *program, iso_text *lines)
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
