/* The rates of a step whose kernels a device runs. The host computes them before the step, from the iteration and the
 * learning rate. It reads both when they are first needed. From then on, each step adds 1 to the iteration. A step
 * with a fault does not, but the steps that have begun after it change nothing, and the host then reads both again.
 * If a step computes such a number otherwise, each step fetches the device's value (iso_updates_prepare). */
#include "runtime/exec/function/function_impl.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/optimizers/rule.h"

static iso_known_scalar *find(iso_runtime *runtime, const iso_variable *variable)
{
    for (int i = 0; i < runtime->n_known; i++)
        if (runtime->known[i].variable == variable)
            return &runtime->known[i];
    return NULL;
}

/* Reads a variable of 8 bytes, and waits for the steps that have begun. NULL in *known: there is no room for it. */
static iso_status know(iso_runtime *runtime, const iso_variable *variable, const iso_known_scalar **known)
{
    const iso_local_slot *slot = &runtime->locals[0];
    iso_known_scalar fresh = {.variable = variable};
    *known = find(runtime, variable);
    if (*known || runtime->n_known == ISO_MOST_KNOWN)
        return ISO_OK;
    iso_status status = iso_device_read(
        slot->stream, &fresh.value, iso_runtime_variable(runtime, variable, slot->slot), sizeof fresh.value);
    if (status != ISO_OK)
        return status;
    runtime->known[runtime->n_known] = fresh;
    *known = &runtime->known[runtime->n_known++];
    return ISO_OK;
}

static const iso_variable *variable_of(const iso_tensor *tensor)
{
    return ((const iso_variable_attrs *)tensor->producer->attrs)->variable;
}

/* The rates of one kind of bucket. */
static iso_status compute(iso_runtime *runtime, const iso_program *program, const iso_bucket *bucket,
                          const iso_bucket_state *state, iso_step_rates *rates, bool *computed)
{
    const iso_op *apply = program->changes[bucket->members[0].change].apply;
    const iso_known_scalar *iteration, *rate;
    iso_status status = ISO_OK;
    *computed = false;
    ISO_TRY(know(runtime, variable_of(apply->inputs[2]), &iteration));
    ISO_TRY(know(runtime, variable_of(apply->inputs[3]), &rate));
    if (!iteration || !rate || iteration->computed || rate->computed)
        return ISO_OK;
    const iso_rates_call call = {.rule = state->rule,
                                 .optimizer = bucket->optimizer,
                                 .dtype = bucket->dtype,
                                 .iteration = &iteration->value.count,
                                 .rate = &rate->value.number,
                                 .rates = rates};
    iso_backend_cpu()->prepare(&call, NULL);
    *computed = true;
done:
    return status;
}

iso_status iso_rates_compute(iso_function *function, const iso_step_results *results, bool *computed)
{
    const iso_plan *plan = results->executable->plan;
    iso_status status = ISO_OK;
    *computed = results->rates != NULL;
    for (int k = 0; *computed && k < plan->buckets->kinds && status == ISO_OK; k++)
        status = compute(function->runtime, plan->program, &plan->buckets->buckets[k],
                         &function->updates->state[k], &results->rates[k], computed);
    *computed = *computed && status == ISO_OK;
    return status;
}

/* ---- whether a step changes weights ---- */

/* The iteration of a bucket's optimizer before a step that begins now. Without *known the host does not know it. */
static iso_status find_iteration(iso_runtime *runtime, const iso_variable *variable, int64_t *iteration,
                                 bool *known)
{
    const iso_known_scalar *found;
    if (runtime->device->host_access) {
        *iteration = *(const int64_t *)iso_runtime_variable(runtime, variable, runtime->locals[0].slot);
        *known = true;
        return ISO_OK;
    }
    iso_status status = know(runtime, variable, &found);
    *known = status == ISO_OK && found && !found->computed;
    if (*known)
        *iteration = found->value.count;
    return status;
}

iso_status iso_rates_find_update(iso_function *function, const iso_plan *plan, bool *updates)
{
    const iso_bucket_list *buckets = plan->buckets;
    iso_status status = ISO_OK;
    *updates = !iso_buckets_accumulate(buckets);
    for (int k = 0; k < buckets->kinds && !*updates; k++) {
        const iso_bucket *bucket = &buckets->buckets[k];
        const iso_op *apply = plan->program->changes[bucket->members[0].change].apply;
        int64_t iteration = 0;
        bool known;
        status = find_iteration(function->runtime, variable_of(apply->inputs[2]), &iteration, &known);
        *updates = !known || iso_optimizer_updates(bucket->optimizer, iteration);
    }
    return status;
}

/* ---- what steps change ---- */

static bool is_one(const iso_tensor *tensor)
{
    const iso_op *op = tensor->producer;
    return op && op->type == &iso_op_constant && ((const iso_constant_attrs *)op->attrs)->values[0] == 1;
}

/* Whether a change adds 1 to its variable, as iso_minimize does. */
static bool counts(const iso_program *program, const iso_program_change *change)
{
    const iso_op *op = program->values[change->value].tensor->producer;
    return !change->apply && change->variable->dtype == ISO_I64 && op && op->type == &iso_op_add &&
           op->inputs[0] == change->variable->value && is_one(op->inputs[1]);
}

void iso_rates_note_step(iso_runtime *runtime, const iso_program *program)
{
    for (int i = 0; runtime->n_known > 0 && i < program->n_changes; i++) {
        const iso_program_change *change = &program->changes[i];
        iso_known_scalar *known = find(runtime, change->variable);
        if (!known)
            continue;
        if (counts(program, change))
            known->value.count++;
        else
            known->computed = true;
    }
}
