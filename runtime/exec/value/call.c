/* Functions called on values: inputs are resharded if needed, results stay on their slots. */
#include <inttypes.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/value/value_impl.h"

/* One call: its options, and the batch that its step reads. */
typedef struct call {
    iso_function *function;
    iso_function_call_options options;
    iso_batch batch; /* reads from `input`, and, for inputs that are NULL there, from the caller's batch */
    const iso_value *input[ISO_MAX_FUNCTION_INPUTS]; /* in the layout of the function's input */
    iso_value *resharded[ISO_MAX_FUNCTION_INPUTS];   /* resharded copies, owned; NULL: the caller's value is
                                                        used */
    iso_value *output[ISO_MAX_FUNCTION_OUTPUTS];     /* owned; NULL: not wanted */
} call;

/* ---- checking the arguments ---- */

static iso_status check_lists(const call *c)
{
    const iso_program *program = c->function->program;
    for (int i = program->n_inputs; i < ISO_MAX_FUNCTION_INPUTS; i++)
        if (c->options.inputs[i])
            return iso_error(ISO_INVALID, "function '%s' has %d inputs and was given a value for input %d",
                             c->function->name, program->n_inputs, i);
    for (int i = program->n_outputs; i < ISO_MAX_FUNCTION_OUTPUTS; i++)
        if (c->options.outputs[i])
            return iso_error(ISO_INVALID, "function '%s' has %d outputs and was asked for output %d",
                             c->function->name, program->n_outputs, i);
    return ISO_OK;
}

/* *rows: rows of the previous inputs; -1: none had rows. */
static iso_status call_check_rows(const call *c, int i, int64_t rows_of_input, int64_t *rows)
{
    const char *name = iso_tensor_name(c->function->program->inputs[i]);
    if (rows_of_input < 1)
        return iso_error(ISO_INVALID, "input '%s' of function '%s' was given %" PRId64 " rows", name,
                         c->function->name, rows_of_input);
    if (*rows >= 0 && *rows != rows_of_input)
        return iso_error(ISO_INVALID,
                         "input '%s' of function '%s' was given %" PRId64 " rows, those before it %" PRId64,
                         name, c->function->name, rows_of_input, *rows);
    *rows = rows_of_input;
    return ISO_OK;
}

static iso_status check_value(const call *c, int i, int64_t *rows)
{
    iso_value *value = c->options.inputs[i];
    const iso_tensor *input = c->function->program->inputs[i];
    iso_shape shape = input->shape;
    iso_text what = {0};
    iso_status status = ISO_OK;
    iso_text_add(&what, "input '%s' of function '%s'", iso_tensor_name(input), c->function->name);
    if (iso_input_has_batch(input) && value->shape.rank > 0)
        shape.dim[0] = value->shape.dim[0];
    ISO_TRY(iso_value_check(value, iso_text_get(&what), c->function->runtime->mesh, input->dtype, &shape));
    if (iso_input_has_batch(input))
        ISO_TRY(call_check_rows(c, i, value->shape.dim[0], rows));
done:
    iso_text_free(&what);
    return status;
}

static iso_status call_check_component(const call *c, int i, int64_t *rows)
{
    const iso_batch *batch = c->options.batch;
    const iso_tensor *input = c->function->program->inputs[i];
    if (!batch)
        return iso_error(ISO_INVALID, "input '%s' of function '%s' was given neither a value nor a batch",
                         iso_tensor_name(input), c->function->name);
    if (!batch->read)
        return iso_error(ISO_INVALID, "function '%s' was given a batch whose `read` is NULL",
                         c->function->name);
    if (i >= batch->n_components)
        return iso_error(ISO_INVALID,
                         "input '%s' of function '%s' was given no value, and the batch has %d components",
                         iso_tensor_name(input), c->function->name, batch->n_components);
    return iso_input_has_batch(input) ? call_check_rows(c, i, batch->rows, rows) : ISO_OK;
}

static iso_status call_check(const call *c, int64_t *rows)
{
    const iso_program *program = c->function->program;
    iso_status status = ISO_OK;
    *rows = -1;
    ISO_TRY(check_lists(c));
    for (int i = 0; i < program->n_inputs; i++)
        ISO_TRY(c->options.inputs[i] ? check_value(c, i, rows) : call_check_component(c, i, rows));
done:
    return status;
}

/* Ranks with different values would wait for messages that no rank sends. Collective. */
static iso_status agree_on_values(const call *c, int64_t rows)
{
    const iso_program *program = c->function->program;
    iso_text text = {0};
    iso_text_add(&text, "%" PRId64 " rows", rows < 0 ? 0 : rows);
    for (int i = 0; i < program->n_inputs; i++) {
        iso_text_add(&text, ", %s: ", iso_tensor_name(program->inputs[i]));
        if (c->options.inputs[i])
            iso_value_describe(c->options.inputs[i], &text);
        else
            iso_text_add(&text, "of the batch");
    }
    iso_text_add(&text, "; outputs");
    for (int i = 0; i < program->n_outputs; i++)
        if (c->options.outputs[i])
            iso_text_add(&text, " %d", i);
    iso_status status = ISO_OK;
    ISO_TRY(iso_agree(program->graph->ctx,
                      text.failed
                          ? iso_error(ISO_NO_MEMORY, "no memory to call function '%s'", c->function->name)
                          : ISO_OK));
    ISO_TRY(iso_agree_same_text(program->graph->ctx, "the call of a function", iso_text_get(&text)));
done:
    iso_text_free(&text);
    return status;
}

/* ---- values as a batch ---- */

/* Whether `part` is some of the rows of `whole`. */
static bool is_rows_of(const iso_box *whole, const iso_box *part)
{
    iso_box rows = *part;
    if (whole->rank == 0 || part->rank == 0)
        return whole->rank == part->rank;
    rows.offset[0] = whole->offset[0];
    rows.extent[0] = whole->extent[0];
    return iso_box_equal(whole, &rows) && part->offset[0] >= whole->offset[0] &&
           part->offset[0] + part->extent[0] <= whole->offset[0] + whole->extent[0];
}

/* Reads rows of what a slot holds of an input. The value has the input's layout, so these are of one of its parts. */
static iso_status read_value(const iso_value *value, const iso_box *box, void *out)
{
    const size_t bytes = (size_t)iso_box_count(box) * iso_dtype_size(value->dtype);
    for (int l = 0; l < value->n_locals; l++) {
        iso_box held = iso_value_local_box(value, l);
        if (!is_rows_of(&held, box))
            continue;
        int64_t before = box->rank > 0 ? box->offset[0] - held.offset[0] : 0;
        size_t row = box->rank > 0 && box->extent[0] > 0 ? bytes / (size_t)box->extent[0] : 0;
        memcpy(out, (const char *)value->part[l] + (size_t)before * row, bytes);
        return ISO_OK;
    }
    return iso_error(ISO_FAILED, "a slot reads elements of a value that it does not hold");
}

static iso_status call_read_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                 iso_dtype dtype, void *out)
{
    const call *c = batch->impl;
    const iso_value *value = c->input[component];
    if (!value)
        return c->options.batch->read(c->options.batch, component, begin, count, dtype, out);
    iso_box box = iso_box_whole(&value->shape);
    box.offset[0] = begin; /* ignored if the value is a scalar */
    box.extent[0] = count;
    return read_value(value, &box, out);
}

static iso_status read_part_of_rows(const iso_batch *batch, int component, int64_t begin, int64_t count,
                                    const iso_box *part, iso_dtype dtype, void *out)
{
    const call *c = batch->impl;
    const iso_value *value = c->input[component];
    if (!value)
        return c->options.batch->read_part(c->options.batch, component, begin, count, part, dtype, out);
    iso_box box = {.rank = value->shape.rank, .offset = {begin}, .extent = {count}};
    for (int d = 1; d < box.rank; d++) {
        box.offset[d] = part->offset[d - 1];
        box.extent[d] = part->extent[d - 1];
    }
    return read_value(value, &box, out);
}

static iso_status call_prepare_rows(const iso_batch *batch, const iso_row_range *ranges, int count)
{
    const call *c = batch->impl;
    return c->options.batch->prepare(c->options.batch, ranges, count);
}

static iso_kept_bytes *call_kept_rows(const iso_batch *batch, const iso_row_range *ranges, int count,
                                      size_t *bytes)
{
    const call *c = batch->impl;
    return c->options.batch->kept(c->options.batch, ranges, count, bytes);
}

static int64_t call_source_row(const iso_batch *batch, int64_t position, int64_t row)
{
    const call *c = batch->impl;
    return c->options.batch->source_row(c->options.batch, position, row);
}

static void make_batch(call *c, int64_t rows)
{
    const iso_program *program = c->function->program;
    if (c->options.batch)
        c->batch = *c->options.batch;
    c->batch.rows = rows < 0 ? 0 : rows;
    c->batch.n_components = program->n_inputs;
    c->batch.read = call_read_rows;
    c->batch.read_part = read_part_of_rows;
    c->batch.prepare = c->options.batch && c->options.batch->prepare ? call_prepare_rows : NULL;
    c->batch.kept = c->options.batch && c->options.batch->kept ? call_kept_rows : NULL;
    c->batch.source_row = c->options.batch && c->options.batch->source_row ? call_source_row : NULL;
    c->batch.impl = c;
    for (int i = 0; i < program->n_inputs; i++)
        if (c->options.inputs[i]) {
            c->batch.dtype[i] = program->inputs[i]->dtype;
            c->batch.shape[i] = iso_input_row(program->inputs[i]);
            c->batch.source_row = NULL; /* a row of the value may be the wrong one */
        }
}

/* Brings values to the layouts of the inputs. Collective. */
static iso_status take_inputs(call *c)
{
    const iso_program *program = c->function->program;
    iso_status status = ISO_OK;
    for (int i = 0; i < program->n_inputs; i++) {
        if (!c->options.inputs[i])
            continue;
        if (program->input_value[i] >= 0)
            ISO_TRY(iso_value_to_layout(c->options.inputs[i],
                                        &program->values[program->input_value[i]].layout, &c->resharded[i]));
        c->input[i] = c->resharded[i] ? c->resharded[i] : c->options.inputs[i];
    }
done:
    return status;
}

/* ---- results ---- */

/* Allocates the outputs that are wanted and copies the slots' parts to them. Local. */
static iso_status copy_outputs(call *c, const iso_executable *executable, iso_value_site *site)
{
    const iso_program *program = c->function->program;
    const iso_runtime *runtime = c->function->runtime;
    iso_status status = ISO_OK;
    for (int o = 0; o < program->n_outputs; o++) {
        int number = program->output_value[o];
        const iso_program_value *of = &program->values[number];
        iso_shape shape = iso_plan_shape(executable->plan, number);
        if (!c->options.outputs[o])
            continue;
        ISO_TRY(iso_value_allocate(site, &of->layout, of->tensor->dtype, &shape, &c->output[o]));
        for (int l = 0; l < runtime->n_locals; l++) {
            iso_box box = iso_value_local_box(c->output[o], l);
            size_t bytes = (size_t)iso_box_count(&box) * iso_dtype_size(of->tensor->dtype);
            ISO_TRY(iso_device_read(runtime->locals[l].stream, c->output[o]->part[l],
                                    iso_executable_value(runtime, executable, l, number), bytes));
        }
    }
done:
    return status;
}

static iso_status give_outputs(call *c, const iso_executable *executable)
{
    const iso_runtime *runtime = c->function->runtime;
    iso_value_site *site;
    iso_status status = ISO_OK;
    ISO_TRY(iso_value_site_get(runtime->distribution->mesh, &site));
    ISO_TRY(iso_agree(runtime->ctx, copy_outputs(c, executable, site)));
    for (int o = 0; o < c->function->program->n_outputs; o++)
        if (c->output[o]) {
            *c->options.outputs[o] = c->output[o];
            c->output[o] = NULL;
        }
done:
    return status;
}

iso_status iso_function_call_with(iso_function *function, const iso_function_call_options *options,
                                  size_t size)
{
    ISO_DEFAULT_MODES();
    call c = {.function = function};
    iso_executable *executable;
    int64_t rows;
    iso_status status = ISO_OK;
    ISO_NEED(function);
    iso_options_copy(&c.options, sizeof c.options, options, size);
    ISO_TRY(iso_agree(function->runtime->ctx, call_check(&c, &rows)));
    ISO_TRY(agree_on_values(&c, rows));
    ISO_TRY(take_inputs(&c));
    make_batch(&c, rows);
    ISO_TRY(iso_function_take_step(function, &c.batch, ISO_OK, &executable));
    ISO_TRY(give_outputs(&c, executable));
done:
    for (int i = 0; i < ISO_MAX_FUNCTION_INPUTS; i++)
        iso_value_destroy(c.resharded[i]);
    for (int o = 0; o < ISO_MAX_FUNCTION_OUTPUTS; o++)
        iso_value_destroy(c.output[o]);
    return status;
}
