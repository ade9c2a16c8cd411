/* A plan's report: variables and ops. */
#include "runtime/report/plan_report.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/report/plan_report_impl.h"

void iso_report_axes(const iso_mesh *mesh, uint32_t axes, char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (int a = 0; a < mesh->n_axes && at < size; a++)
        if (axes & 1u << a)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", mesh->name[a]);
}

int64_t iso_report_value_bytes(const iso_reporter *r, int value)
{
    iso_shape shape = iso_plan_shape(r->plan, value);
    return iso_layout_largest(r->mesh, &r->program->values[value].layout, &shape) *
           (int64_t)iso_dtype_size(r->program->values[value].tensor->dtype);
}

static iso_shape extents(const iso_box *box)
{
    iso_shape shape = {.rank = box->rank};
    memcpy(shape.dim, box->extent, sizeof shape.dim);
    return shape;
}

/* ---- where ops belong ---- */

iso_report_origin iso_report_origin_of(const iso_reporter *r, const iso_op *op)
{
    if (!op)
        return (iso_report_origin){.layer = ""};
    iso_report_origin origin = {
        .op = op->type->name, .backward = op->backward_of != NULL, .again = op->again != NULL};
    origin.layer = iso_op_layer(r->program->graph, op);
    return origin;
}

/* ---- readers of values ---- */

static void find_users(iso_reporter *r)
{
    const iso_program *program = r->program;
    for (int v = 0; v < program->n_values; v++)
        r->user[v] = -1;
    for (int k = program->n_steps - 1; k >= 0; k--) {
        const iso_program_step *step = &program->steps[k];
        bool alias = step->op && iso_plan_is_alias(step->op);
        int user = alias ? r->user[step->output[0]] : k;
        for (int i = 0; i < (step->op ? step->op->n_inputs : 1); i++)
            if (user >= 0)
                r->user[step->input[i]] = user;
    }
}

static void find_updates(iso_reporter *r)
{
    for (int v = 0; v < r->program->n_values; v++)
        r->update_of[v] = -1;
    for (int i = 0; i < r->program->n_changes; i++)
        if (r->program->changes[i].apply)
            r->update_of[r->program->changes[i].value] = i;
    for (int i = 0; i < r->plan->n_instructions; i++)
        r->kernels_before[i + 1] = r->kernels_before[i] + (r->plan->instructions[i].kind == ISO_KERNEL);
}

static void find_members(iso_reporter *r)
{
    for (int i = 0; i < r->program->n_variables; i++)
        r->bucket_of[i] = -1;
    for (int b = 0; b < r->plan->buckets->count; b++)
        for (int m = 0; m < r->plan->buckets->buckets[b].n_members; m++) {
            int id = r->plan->buckets->buckets[b].members[m].variable->id;
            r->bucket_of[id] = b;
            r->member_of[id] = m;
        }
}

/* ---- variables ---- */

int iso_report_state_slots(const iso_bucket *bucket)
{
    const char *names[ISO_MAX_OPTIMIZER_SLOTS];
    double initial[ISO_MAX_OPTIMIZER_SLOTS] = {0};
    return iso_optimizer_kernel_slots(bucket->optimizer, names, initial);
}

/* Gradient, optimizer state, and the slots that share the update: those that hold the same part of the
 * variable, or, if the update is sharded further than the variable, those along the axes that shard it
 * further. */
static void describe_update(const iso_reporter *r, const iso_variable *variable, iso_report_variable *out)
{
    int b = r->bucket_of[variable->id];
    if (b < 0)
        return;
    const iso_bucket *bucket = &r->plan->buckets->buckets[b];
    const iso_layout *update = &r->program->update_layout[variable->id];
    uint32_t finer = iso_layout_sharded_axes(update) &
                     ~iso_layout_sharded_axes(&r->program->variable_layout[variable->id]);
    out->split = bucket->group;
    for (int a = 0; a < r->mesh->n_axes; a++)
        out->split *= finer & 1u << a ? r->mesh->size[a] : 1;
    iso_report_axes(r->mesh, bucket->axes | finer, out->split_axes, sizeof out->split_axes);
    int64_t updated =
        iso_layout_largest(r->mesh, update, &variable->shape) * (int64_t)iso_dtype_size(variable->dtype);
    out->gradient_bytes = iso_plan_fused_of(r->plan, b, r->member_of[variable->id]) < 0 ? updated : 0;
    out->state_bytes = (updated + bucket->group - 1) / bucket->group * iso_report_state_slots(bucket);
}

static const char *reason_of_state(const char *path)
{
    return strcmp(strrchr(path, '/'), "/gradient_accumulator") == 0 ? "accumulation" : "optimizer";
}

static void describe_variable(const iso_reporter *r, int number)
{
    const iso_variable *variable = r->program->graph->variables[number];
    const iso_layout *layout = &r->program->variable_layout[number];
    iso_report_variable *out = &r->report->variables[number];
    iso_box box = iso_layout_box(r->mesh, layout, &variable->shape, 0);
    *out = (iso_report_variable){.path = variable->path,
                                 .dtype = variable->dtype,
                                 .trainable = iso_variable_trainable(variable),
                                 .shape = variable->shape,
                                 .local = extents(&box)};
    out->reason = iso_distribution_reason(r->program->distribution, variable, &out->key);
    if (!strcmp(out->reason, "default") && iso_layout_sharded_axes(layout))
        out->reason = variable->state_of ? reason_of_state(variable->path) : "zero";
    iso_layout_text(r->mesh, layout, out->layout, sizeof out->layout);
    out->bytes = iso_box_count(&box) * (int64_t)iso_dtype_size(variable->dtype);
    describe_update(r, variable, out);
    int64_t count;
    if (iso_variable_trainable(variable) && iso_shape_count(&variable->shape, &count) == ISO_OK)
        r->report->parameters += count;
}

/* ---- ops ---- */

static void describe_value(const iso_reporter *r, int value, iso_report_op *out)
{
    iso_box box = iso_plan_box(r->plan, value, 0);
    out->tensor = iso_tensor_name(r->program->values[value].tensor);
    out->shape = iso_plan_shape(r->plan, value);
    out->local = extents(&box);
    iso_layout_text(r->mesh, &r->program->values[value].layout, out->layout, sizeof out->layout);
}

static const char *kernel_of(const iso_reporter *r, int step)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    iso_plan_call(r->plan, step, 0, in, out, &call);
    const iso_kernel *kernel = r->plan->site->backend->find(r->program->steps[step].op->type->name, &call);
    return kernel ? kernel->name : NULL;
}

static void describe_op(const iso_reporter *r, int number, iso_report_op *out)
{
    const iso_program_step *step = &r->program->steps[number];
    out->origin = iso_report_origin_of(r, step->op);
    out->kernel = kernel_of(r, number);
    out->repeated = step->replicas;
    out->flops = iso_plan_flops_of_all(r->plan, step);
    describe_value(r, step->output[0], out);
}

static void describe_instruction(iso_reporter *r, int number)
{
    static const iso_report_kind kinds[] = {[ISO_READ] = ISO_REPORT_READ,
                                            [ISO_KERNEL] = ISO_REPORT_OP,
                                            [ISO_COPY] = ISO_REPORT_COPY,
                                            [ISO_BEGIN] = ISO_REPORT_BEGIN,
                                            [ISO_EXCHANGE] = ISO_REPORT_EXCHANGE};
    const iso_instruction *instruction = &r->plan->instructions[number];
    iso_report_op *out = &r->report->ops[number];
    *out = (iso_report_op){.kind = kinds[instruction->kind], .repeated = 1, .origin.layer = ""};
    if (instruction->kind == ISO_KERNEL) {
        r->instruction_of[instruction->step] = number;
        describe_op(r, instruction->step, out);
    } else if (instruction->kind == ISO_READ) {
        describe_value(r, r->program->input_value[instruction->input], out);
    } else if (instruction->kind == ISO_COPY) {
        int made = r->program->values[r->program->steps[instruction->step].input[0]].step;
        out->origin = iso_report_origin_of(r, made >= 0 ? r->program->steps[made].op : NULL);
        describe_value(r, r->program->steps[instruction->step].output[0], out);
    }
}

static void describe_term(iso_reporter *r, int step, int at)
{
    r->report->ops[at] = (iso_report_op){.kind = ISO_REPORT_PRODUCT};
    describe_op(r, step, &r->report->ops[at]);
    r->instruction_of[step] = at;
}

static int count_terms(const iso_plan *plan)
{
    int terms = 0;
    for (int i = 0; i < plan->n_fused_updates; i++)
        terms += plan->fused_updates[i].n_terms;
    return terms;
}

/* The instructions, then the products that the optimizers compute, then the end of the step. */
static void describe_ops(iso_reporter *r)
{
    const iso_plan *plan = r->plan;
    iso_plan_report *report = r->report;
    for (int i = 0; i < plan->n_instructions; i++)
        describe_instruction(r, i);
    for (int i = 0, at = plan->n_instructions; i < plan->n_fused_updates; i++)
        for (int t = 0; t < plan->fused_updates[i].n_terms; t++, at++)
            describe_term(r, plan->fused_updates[i].term[t], at);
    for (int i = 0; i < report->n_ops; i++)
        report->flops_again += report->ops[i].origin.again ? report->ops[i].flops : 0;
    report->ops[report->n_ops - 1] = (iso_report_op){.kind = ISO_REPORT_END, .origin.layer = ""};
    report->flops = plan->flops;
}

/* ---- making ---- */

static iso_status report_take(iso_reporter *r)
{
    iso_plan_report *report = r->report;
    size_t variables = (size_t)r->program->n_variables + 1;
    report->n_variables = r->program->n_variables;
    report->n_ops = r->plan->n_instructions + count_terms(r->plan) + 1;
    report->variables = iso_new(variables * sizeof *report->variables);
    report->ops = iso_new((size_t)report->n_ops * sizeof *report->ops);
    r->user = iso_new(((size_t)r->program->n_values + 1) * sizeof *r->user);
    r->update_of = iso_new(((size_t)r->program->n_values + 1) * sizeof *r->update_of);
    r->kernels_before = iso_new(((size_t)r->plan->n_instructions + 1) * sizeof *r->kernels_before);
    r->instruction_of = iso_new(((size_t)r->program->n_steps + 1) * sizeof *r->instruction_of);
    r->bucket_of = iso_new(variables * sizeof *r->bucket_of);
    r->member_of = iso_new(variables * sizeof *r->member_of);
    r->bucket_weights = iso_new(((size_t)r->plan->buckets->count + 1) * sizeof *r->bucket_weights);
    bool all = r->bucket_weights && report->variables && report->ops && r->user && r->update_of &&
               r->kernels_before && r->instruction_of && r->bucket_of && r->member_of;
    for (int k = 0; all && k < r->program->n_steps; k++)
        r->instruction_of[k] = -1;
    return all ? ISO_OK : iso_no_memory("the report of %d ops", report->n_ops);
}

static void give_back(iso_reporter *r)
{
    iso_free(r->user);
    iso_free(r->update_of);
    iso_free(r->kernels_before);
    iso_free(r->instruction_of);
    iso_free(r->bucket_of);
    iso_free(r->member_of);
    iso_free(r->bucket_weights);
    iso_report_free_hosts(r);
}

static iso_status report_describe(iso_reporter *r)
{
    iso_status status;
    ISO_TRY(report_take(r));
    find_users(r);
    find_members(r);
    find_updates(r);
    ISO_TRY(iso_report_hosts(r));
    for (int i = 0; i < r->report->n_variables; i++)
        describe_variable(r, i);
    describe_ops(r);
    ISO_TRY(iso_report_moves(r));
    ISO_TRY(iso_report_memory_of(r));
done:
    give_back(r);
    return status;
}

iso_status iso_plan_report_create(const iso_plan *plan, iso_plan_report **out)
{
    iso_plan_report *report = iso_new(sizeof *report);
    if (!report)
        return iso_no_memory("a report");
    snprintf(report->mesh, sizeof report->mesh, "%s", plan->program->mesh->text);
    report->training = plan->program->training;
    report->n_slots = plan->program->mesh->n_slots;
    if (plan->program->mesh->listed)
        report->rank_of_slot = plan->program->mesh->rank_of_slot;
    report->rows = plan->rows;
    report->backend = plan->site->backend->name;
    iso_reporter r = {.plan = plan, .program = plan->program, .mesh = plan->program->mesh, .report = report};
    iso_status status = report_describe(&r);
    if (status == ISO_OK)
        *out = report;
    else
        iso_plan_report_destroy(report);
    return status;
}

void iso_plan_report_destroy(iso_plan_report *report)
{
    if (!report)
        return;
    iso_free(report->variables);
    iso_free(report->ops);
    iso_free(report->collectives);
    iso_free(report->time);
    iso_free(report);
}
