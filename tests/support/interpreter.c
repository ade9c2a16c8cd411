#include "tests/support/interpreter.h"

#include <check.h>
#include <string.h>

#include "runtime/base/bf16.h"
#include "runtime/base/memory.h"
#include "runtime/graph/ops/list.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5, GARBAGE = 0x7F };

/* ---- arrays ---- */
int64_t array_count(const iso_array *array)
{
    int64_t count = 1;
    for (int d = 0; d < array->rank; d++)
        count *= array->dim[d];
    return count;
}

static size_t array_bytes(const iso_array *array)
{
    return (size_t)array_count(array) * iso_dtype_size(array->dtype);
}

iso_array array_create(iso_dtype dtype, int rank, const int64_t *dim)
{
    iso_array array = {.dtype = dtype, .rank = rank};
    for (int d = 0; d < rank; d++)
        array.dim[d] = array.global[d] = dim[d];
    ck_assert_int_eq(iso_alloc(array_bytes(&array) + GUARD_BYTES, "a test's array", &array.data), ISO_OK);
    memset((char *)array.data + array_bytes(&array), GUARD, GUARD_BYTES);
    return array;
}

void array_free(iso_array *array)
{
    iso_free(array->data);
    array->data = NULL;
}

double array_get(const iso_array *array, int64_t index)
{
    switch (array->dtype) {
    case ISO_F32:
        return ((const float *)array->data)[index];
    case ISO_F64:
        return ((const double *)array->data)[index];
    case ISO_I32:
        return ((const int32_t *)array->data)[index];
    case ISO_I64:
        return (double)((const int64_t *)array->data)[index];
    case ISO_BF16:
        return iso_bf16_to_float(((const uint16_t *)array->data)[index]);
    default:
        return ((const uint8_t *)array->data)[index];
    }
}

void array_set(iso_array *array, int64_t index, double value)
{
    switch (array->dtype) {
    case ISO_F32:
        ((float *)array->data)[index] = (float)value;
        break;
    case ISO_F64:
        ((double *)array->data)[index] = value;
        break;
    case ISO_I32:
        ((int32_t *)array->data)[index] = (int32_t)value;
        break;
    case ISO_I64:
        ((int64_t *)array->data)[index] = (int64_t)value;
        break;
    case ISO_BF16:
        ((uint16_t *)array->data)[index] = iso_bf16_of_double(value);
        break;
    default:
        ((uint8_t *)array->data)[index] = (uint8_t)value;
    }
}

/* The index in the whole of element `i` of a part. */
static int64_t index_in_whole(const iso_array *part, const iso_array *whole, int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = part->rank - 1; d >= 0; d--) {
        index += (part->offset[d] + i % part->dim[d]) * step;
        i /= part->dim[d];
        step *= whole->dim[d];
    }
    return index;
}

iso_array array_cut(const iso_array *whole, const iso_box *box)
{
    iso_array part = array_create(whole->dtype, whole->rank, box->extent);
    size_t size = iso_dtype_size(whole->dtype);
    for (int d = 0; d < whole->rank; d++) {
        part.offset[d] = box->offset[d];
        part.global[d] = whole->dim[d];
    }
    for (int64_t i = 0, n = array_count(&part); i < n; i++)
        memcpy((char *)part.data + (size_t)i * size,
               (const char *)whole->data + (size_t)index_in_whole(&part, whole, i) * size, size);
    return part;
}

void array_paste(iso_array *whole, const iso_array *part)
{
    size_t size = iso_dtype_size(whole->dtype);
    for (int64_t i = 0, n = array_count(part); i < n; i++)
        memcpy((char *)whole->data + (size_t)index_in_whole(part, whole, i) * size,
               (const char *)part->data + (size_t)i * size, size);
}

static void check_guard(const iso_array *array, const char *name)
{
    const unsigned char *guard = (const unsigned char *)array->data + array_bytes(array);
    for (int i = 0; i < GUARD_BYTES; i++)
        ck_assert_msg(guard[i] == GUARD, "the kernel of %s wrote %d bytes behind its output's end", name,
                      i + 1);
}

static bool is_input(const iso_op *op, const iso_array *in, const iso_array *out)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (in[i].data == out->data)
            return true;
    return false;
}

void run_op(const iso_backend *backend, const iso_op *op, const iso_array *in, iso_array *out,
            const iso_step_info *info, iso_fault *fault)
{
    iso_array operand[ISO_MAX_INPUTS + ISO_MAX_OUTPUTS];
    iso_kernel_call call = {.attrs = op->attrs,
                            .n_inputs = op->n_inputs,
                            .n_outputs = op->n_outputs,
                            .in = operand,
                            .out = operand + op->n_inputs,
                            .info = info,
                            .fault = fault};
    for (int i = 0; i < op->n_inputs + op->n_outputs; i++)
        operand[i] = iso_operand_of(op, i < op->n_inputs ? in[i] : out[i - op->n_inputs]);
    for (int i = 0; i < op->n_outputs; i++)
        if (!is_input(op, in, &out[i]))
            memset(out[i].data, GARBAGE, array_bytes(&out[i]));
    if (strcmp(op->type->name, "reshape") == 0) {
        memcpy(out[0].data, in[0].data, array_bytes(&out[0]));
        return;
    }
    const iso_kernel *kernel = backend->find(op->type->name, &call);
    ck_assert_msg(kernel != NULL, "backend %s has no kernel for %s", backend->name, op->type->name);
    size_t bytes = kernel->scratch ? kernel->scratch(&call) : 0;
    ck_assert_int_eq(iso_alloc(bytes, "scratch", &call.scratch), ISO_OK);
    memset(call.scratch, GARBAGE, bytes);
    kernel->run(&call);
    iso_fault_format(fault, op->type, in, "");
    iso_free(call.scratch);
    for (int i = 0; i < op->n_outputs; i++)
        check_guard(&out[i], op->type->name);
}

/* ---- graphs ---- */
interpreter *interpreter_create(iso_graph *graph, const iso_backend *backend, int64_t rows)
{
    ck_assert_msg(iso_graph_error(graph) == ISO_OK, "%s", graph->message);
    interpreter *in = iso_new(sizeof *in);
    ck_assert_ptr_nonnull(in);
    *in = (interpreter){.graph = graph, .backend = backend, .info.rows = rows};
    return in;
}

static void forget(interpreter *in, int id)
{
    if (id < in->values && in->value[id].data)
        array_free(&in->value[id]);
}

void interpreter_destroy(interpreter *in)
{
    for (int i = 0; i < in->values; i++)
        forget(in, i);
    iso_free(in->value);
    iso_free(in);
}

/* The graph may have grown since the last call. */
static void make_room(interpreter *in)
{
    if (in->values == in->graph->n_tensors)
        return;
    in->value = iso_grow(in->value, (size_t)in->values, (size_t)in->graph->n_tensors, sizeof *in->value);
    ck_assert_ptr_nonnull(in->value);
    memset(in->value + in->values, 0, (size_t)(in->graph->n_tensors - in->values) * sizeof *in->value);
    in->values = in->graph->n_tensors;
}

iso_shape interpreter_shape(const interpreter *in, const iso_tensor *tensor)
{
    return iso_shape_with_rows(&tensor->shape, in->info.rows);
}

static iso_array empty_value(const interpreter *in, const iso_tensor *tensor)
{
    iso_shape shape = interpreter_shape(in, tensor);
    return array_create(tensor->dtype, shape.rank, shape.dim);
}

static bool is_given(const iso_op *op)
{
    return op->type == &iso_op_input || op->type == &iso_op_variable;
}

void interpreter_set(interpreter *in, const iso_tensor *tensor, const double *values)
{
    make_room(in);
    for (int i = 0; i < in->graph->n_tensors; i++)
        if (!is_given(in->graph->tensors[i]->producer) || i == tensor->id)
            forget(in, i);
    iso_array array = empty_value(in, tensor);
    for (int64_t i = 0, n = array_count(&array); i < n; i++)
        array_set(&array, i, values[i]);
    in->value[tensor->id] = array;
}

static void set_constant(interpreter *in, const iso_op *op)
{
    const iso_constant_attrs *attrs = op->attrs;
    iso_array array = empty_value(in, op->outputs[0]);
    for (int64_t i = 0, n = array_count(&array); i < n; i++)
        array_set(&array, i, attrs->values[i]);
    in->value[op->outputs[0]->id] = array;
}

/* A copy of one of the inputs, or zeros where chosen is -1. */
static void pass(interpreter *in, const iso_op *op, int chosen)
{
    iso_array array = empty_value(in, op->outputs[0]);
    if (chosen >= 0)
        memcpy(array.data, in->value[op->inputs[chosen]->id].data, array_bytes(&array));
    in->value[op->outputs[0]->id] = array;
}

static void compute(interpreter *in, const iso_op *op)
{
    iso_array input[ISO_MAX_INPUTS], output[ISO_MAX_OUTPUTS];
    for (int i = 0; i < op->n_inputs; i++)
        input[i] = in->value[op->inputs[i]->id];
    for (int i = 0; i < op->n_outputs; i++) {
        forget(in, op->outputs[i]->id);
        output[i] = empty_value(in, op->outputs[i]);
    }
    run_op(in->backend, op, input, output, &in->info, &in->fault);
    for (int i = 0; i < op->n_outputs; i++)
        in->value[op->outputs[i]->id] = output[i];
}

static void pass_gate(interpreter *in, const iso_op *op)
{
    const iso_gate_attrs *attrs = op->attrs;
    pass(in, op, attrs->training == iso_mode_of(attrs->variable, in->training) ? 0 : -1);
}

static void make(interpreter *in, const iso_op *op)
{
    ck_assert_msg(!is_given(op), "'%s' has no value", iso_tensor_name(op->outputs[0]));
    if (op->type == &iso_op_constant)
        set_constant(in, op);
    else if (op->type == &iso_op_by_mode)
        pass(in, op, iso_mode_of(((const iso_mode_attrs *)op->attrs)->variable, in->training) ? 0 : 1);
    else if (op->type == &iso_op_gate)
        pass_gate(in, op);
    else
        compute(in, op);
}

const iso_array *interpreter_get(interpreter *in, const iso_tensor *tensor)
{
    ck_assert_msg(iso_graph_error(in->graph) == ISO_OK, "%s", in->graph->message);
    make_room(in);
    bool *needed = iso_new((size_t)in->graph->n_ops + 1);
    ck_assert_ptr_nonnull(needed);
    needed[tensor->producer->id] = in->value[tensor->id].data == NULL;
    for (int k = tensor->producer->id; k >= 0; k--)
        for (int i = 0; needed[k] && i < in->graph->ops[k]->n_inputs; i++) {
            const iso_tensor *input = in->graph->ops[k]->inputs[i];
            needed[input->producer->id] |= in->value[input->id].data == NULL;
        }
    in->fault = (iso_fault){0};
    for (int k = 0; k <= tensor->producer->id; k++)
        if (needed[k])
            make(in, in->graph->ops[k]);
    iso_free(needed);
    return &in->value[tensor->id];
}

double interpreter_number(interpreter *in, const iso_tensor *tensor)
{
    ck_assert_int_eq(tensor->shape.rank, 0);
    return array_get(interpreter_get(in, tensor), 0);
}
