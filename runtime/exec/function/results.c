#include "runtime/exec/function/results_impl.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend/fault.h"
#include "runtime/base/memory.h"

/* ---- memory ---- */

static iso_status make_step(const iso_runtime *runtime, const iso_program *program, int kinds,
                            iso_step_results *step)
{
    const size_t outputs = program->n_results > 0 ? (size_t)program->n_results : 0;
    const iso_device *device = runtime->device;
    iso_status status = ISO_OK;
    void *memory;
    ISO_TRY(device->allocate_pinned(device, sizeof *step->memory + outputs * sizeof *step->memory->output,
                                    "the results of a step", &memory));
    step->memory = memory;
    ISO_TRY(device->allocate_pinned(device, (size_t)runtime->n_locals * sizeof *step->host_faults + 1,
                                    "the faults that the host finds in a step", &memory));
    step->host_faults = memory;
    if (!device->host_access) {
        ISO_TRY(device->allocate_pinned(device, (size_t)runtime->n_locals * sizeof *step->faults + 1,
                                        "the faults of a step", &memory));
        step->faults = memory;
        ISO_TRY(device->allocate_pinned(device, (size_t)kinds * sizeof *step->rates + 1,
                                        "the rates of a step", &memory));
        step->rates = memory;
    }
    step->ended = iso_new(((size_t)runtime->n_locals + 1) * sizeof *step->ended);
    if (!step->ended)
        ISO_TRY(iso_no_memory("the events of %d slots", runtime->n_locals));
    for (int l = 0; l < runtime->n_locals; l++)
        ISO_TRY(device->create_event(runtime->locals[l].device, &step->ended[l]));
done:
    return status;
}

iso_status iso_results_create(const iso_runtime *runtime, const iso_program *program, int kinds,
                              iso_async_steps *steps)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < ISO_ASYNC_STEPS && status == ISO_OK; i++)
        status = make_step(runtime, program, kinds, &steps->step[i]);
    return status;
}

static void free_step(const iso_runtime *runtime, iso_step_results *step)
{
    for (int l = 0; step->ended && l < runtime->n_locals; l++)
        runtime->device->destroy_event(step->ended[l]);
    iso_free(step->ended);
    runtime->device->release_pinned(runtime->device, step->host_faults);
    runtime->device->release_pinned(runtime->device, step->rates);
    runtime->device->release_pinned(runtime->device, step->faults);
    runtime->device->release_pinned(runtime->device, step->memory);
}

void iso_results_destroy(const iso_runtime *runtime, iso_async_steps *steps)
{
    for (int i = 0; i < steps->count; i++)
        iso_results_wait(runtime, &steps->step[(steps->first + i) % ISO_ASYNC_STEPS]);
    for (int i = 0; i < ISO_ASYNC_STEPS; i++)
        free_step(runtime, &steps->step[i]);
}

iso_step_results *iso_results_next(iso_async_steps *steps)
{
    iso_step_results *next = &steps->step[(steps->first + steps->count) % ISO_ASYNC_STEPS];
    *next = (iso_step_results){.memory = next->memory,
                               .host_faults = next->host_faults,
                               .rates = next->rates,
                               .faults = next->faults,
                               .ended = next->ended};
    return next;
}

/* ---- reading ---- */

enum { MOST_RESULTS = ISO_MAX_FUNCTION_OUTPUTS + 2 };

static const iso_tensor *output_of(const iso_program *program, int output)
{
    return program->values[program->output_value[output]].tensor;
}

static int64_t elements_of(const iso_tensor *output)
{
    iso_box whole = iso_box_whole(&output->shape);
    return iso_box_count(&whole);
}

/* Lists the copies of the total and of the outputs, which are those of slot 0. Returns their number. */
static int list_step(const iso_runtime *runtime, const iso_program *program, iso_step_results *results,
                     iso_bytes_copy *list)
{
    int count = 0;
    list[count++] = (iso_bytes_copy){results->executable->slot[0].fault_total, &results->memory->total,
                                     sizeof results->memory->total};
    double *output = results->memory->output;
    for (int i = 0; results->reported && i < program->n_outputs; i++) {
        const iso_tensor *tensor = output_of(program, i);
        size_t bytes = (size_t)elements_of(tensor) * iso_dtype_size(tensor->dtype);
        if (bytes > 0)
            list[count++] = (iso_bytes_copy){
                iso_executable_value(runtime, results->executable, 0, program->output_value[i]), output,
                bytes};
        output += elements_of(tensor);
    }
    return count;
}

/* A kernel writes the results of a slot to pinned memory. */
void iso_results_queue(const iso_runtime *runtime, const iso_program *program, iso_step_results *results)
{
    for (int l = 0; l < runtime->n_locals; l++) {
        iso_bytes_copy list[MOST_RESULTS];
        int count = l == 0 ? list_step(runtime, program, results, list) : 0;
        iso_local_slot *slot = &runtime->locals[l];
        if (results->faults) /* the kernels of the next step may raise others before the host reads these */
            list[count++] =
                (iso_bytes_copy){slot->kernel_fault, &results->faults[l], offsetof(iso_fault, text)};
        runtime->backend->copy_bytes(list, count, NULL, slot->stream);
    }
}

void iso_results_record(const iso_runtime *runtime, const iso_step_results *results)
{
    for (int l = 0; l < runtime->n_locals; l++)
        runtime->device->record(results->ended[l], runtime->locals[l].stream);
}

iso_status iso_results_wait(const iso_runtime *runtime, const iso_step_results *results)
{
    iso_status status = ISO_OK;
    for (int l = 0; l < runtime->n_locals; l++) {
        iso_status one = iso_fabric_wait_event(runtime->fabric, results->ended[l]);
        status = status == ISO_OK ? one : status;
    }
    return status;
}

void iso_results_outputs(const iso_program *program, const iso_step_results *results, double *values)
{
    const double *output = results->memory->output;
    for (int i = 0; i < program->n_outputs; i++) {
        const iso_tensor *tensor = output_of(program, i);
        int64_t count = elements_of(tensor);
        for (int64_t k = 0; k < count; k++)
            *values++ = iso_element_get(output, tensor->dtype, k);
        output += count;
    }
}

/* ---- faults ---- */

/* Writes the row of the data set for a row of the batch: " of the batch (row 4711 of the data set)". */
static void say_source(const iso_step_results *results, int64_t row, char *text, size_t size)
{
    const iso_batch *batch = results->batch;
    int64_t source = batch ? batch->source_row(batch, results->position, row) : -1;
    if (source < 0)
        snprintf(text, size, " of the batch");
    else
        snprintf(text, size, " of the batch (row %" PRId64 " of the data set)", source);
}

/* Puts the op's name before a kernel's own text. */
static void word_text(iso_fault *found, const char *op)
{
    char text[sizeof found->text];
    snprintf(text, sizeof text, "%s", found->text);
    snprintf(found->text, sizeof found->text, "%s: %.*s", op, (int)(sizeof text - strlen(op) - 3), text);
}

/* Words a bad value that an op found in one of its inputs. Returns whether its row is one of the batch. */
static bool word_value(const iso_step_results *results, const iso_slot_plan *sp, const iso_op *op,
                       iso_fault *found)
{
    char source[80] = "";
    const iso_array *in = sp->instruction[found->instruction].call.in;
    const iso_shape *shape = &op->inputs[found->input]->shape;
    const bool rows = shape->rank > 0 && shape->dim[0] == ISO_BATCH;
    if (rows)
        say_source(results, iso_fault_row(found, in), source, sizeof source);
    iso_fault_format(found, op->type, in, source);
    return rows;
}

/* Words what the kernels of a slot raised, with the op's layer, which losses lack. Returns the name of the data set's
 * source if its row is named; NULL: it is not known. */
static const char *word_fault(const iso_step_results *results, const iso_slot_plan *sp, iso_fault *found)
{
    const iso_plan *plan = results->executable->plan;
    bool rows = false;
    if (found->code == ISO_FAULT_TEXT)
        return NULL;
    const iso_op *op = plan->program->steps[plan->instructions[found->instruction].step].op;
    if (found->code == ISO_FAULT_OP_TEXT)
        word_text(found, op->type->name);
    else
        rows = word_value(results, sp, op, found);
    const char *layer = iso_op_layer(plan->program->graph, op);
    size_t length = strlen(found->text);
    if (*layer)
        snprintf(found->text + length, sizeof found->text - length, ", in layer '%s'", layer);
    return rows && results->batch ? results->batch->source : NULL;
}

iso_status iso_results_kernel_fault(const iso_runtime *runtime, const iso_step_results *results)
{
    iso_status status = ISO_OK;
    for (int l = 0; l < runtime->n_locals && status == ISO_OK; l++) {
        iso_fault found = results->faults ? results->faults[l] : *runtime->locals[l].kernel_fault;
        if (!iso_fault_raised(&found))
            continue;
        const char *source = word_fault(results, &results->executable->slot[l], &found);
        status = iso_error(ISO_INVALID, "%s%s%s%s", source ? "data set " : "", source ? source : "",
                           source ? ": " : "", found.text);
    }
    return status;
}

iso_status iso_results_clear_faults(const iso_runtime *runtime)
{
    const char zero = 0;
    for (int l = 0; l < runtime->n_locals; l++)
        runtime->device->fill(runtime->locals[l].stream, runtime->locals[l].kernel_fault, &zero, 1,
                              sizeof(iso_fault));
    return iso_runtime_finish(runtime);
}
