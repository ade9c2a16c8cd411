/* Fuses a ReLU into the batch normalisation before it, forward and backward, so that the arrays between
 * them are never written. In the backward pass the normalisation's kernels compute again where the ReLU
 * passed values, from what they read anyway.
 * Fuses the gradient of an embedding into the addition of another gradient of the same table, so that only the rows
 * that the batch touches are added.
 * Fuses the sum of a residual connection into the layer normalisation that reads it first, and the sum of the
 * gradients of what was normalised into the gradient of the normalisation.
 * Before all that, fuses casts (fuse_casts.c), and windows into convolutions (fuse_unfold.c). */
#include <math.h>
#include <string.h>

#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/graph/ops/attrs.h"
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "runtime/spmd/fuse_impl.h"

typedef iso_fusion fusion;

static bool is(const iso_program_step *step, const iso_op_type *type)
{
    return step->op && step->op->type == type;
}

/* A ReLU, which may have a largest result, or its gradient. */
static bool is_relu(const iso_program_step *step)
{
    if (is(step, &iso_op_unary_gradient)) {
        const iso_unary_kind kind = ((const iso_unary_attrs *)step->op->attrs)->kind;
        return kind == ISO_UNARY_RELU || kind == ISO_UNARY_CLIPPED_RELU;
    }
    return is(step, &iso_op_relu) || is(step, &iso_op_clipped_relu);
}

static double largest_of(const iso_program_step *relu)
{
    const iso_unary_attrs *attrs = relu->op->attrs;
    return attrs->kind == ISO_UNARY_CLIPPED_RELU ? attrs->alpha : INFINITY;
}

static int inputs_of(const iso_program_step *step)
{
    return step->op ? step->op->n_inputs : 1;
}

/* The steps that read each value, before any is fused. */
static iso_status list_readers(fusion *f)
{
    const iso_program *program = f->program;
    int reads = 0;
    for (int i = 0; i < program->n_steps; i++)
        reads += inputs_of(&program->steps[i]);
    f->first_read = iso_new(((size_t)program->n_values + 2) * sizeof *f->first_read);
    f->reader = iso_new(((size_t)reads + 1) * sizeof *f->reader);
    if (!f->first_read || !f->reader)
        return iso_error(ISO_NO_MEMORY, "no memory to fuse a program of %d steps", program->n_steps);
    int *next = f->first_read + 1; /* filling makes it first_read */
    for (int i = 0; i < program->n_steps; i++)
        for (int k = 0; k < inputs_of(&program->steps[i]); k++)
            next[program->steps[i].input[k] + 1]++;
    for (int v = 1; v <= program->n_values; v++)
        next[v] += next[v - 1];
    for (int i = 0; i < program->n_steps; i++)
        for (int k = 0; k < inputs_of(&program->steps[i]); k++)
            f->reader[next[program->steps[i].input[k]]++] = i;
    return ISO_OK;
}

static void count_uses(fusion *f)
{
    const iso_program *program = f->program;
    for (int v = 0; v < program->n_values; v++)
        f->uses[v] = f->first_read[v + 1] - f->first_read[v];
    for (int i = 0; i < program->n_outputs; i++)
        f->uses[program->output_value[i]]++;
    for (int i = 0; i < program->n_changes; i++)
        f->uses[program->changes[i].value]++;
}

bool iso_fusion_one_layout(const fusion *f, int a, int b)
{
    return iso_layout_equal(&f->program->values[a].layout, &f->program->values[b].layout);
}

iso_status iso_fusion_replace(fusion *f, iso_program_step *step, const void *attrs, size_t size)
{
    iso_program *program = f->program;
    void *own = iso_new(size);
    iso_op *op = iso_new(sizeof *op);
    if (!own || !op || iso_list_reserve(program->fused, program->n_fused, 1, "fused ops") != ISO_OK) {
        iso_free(own);
        iso_free(op);
        return iso_no_memory("a program's fused ops");
    }
    *op = *step->op;
    op->attrs = memcpy(own, attrs, size);
    program->fused[program->n_fused++] = op;
    step->op = op;
    return ISO_OK;
}

/* Replaces a step's op by a copy with the activation. */
static iso_status activate(fusion *f, iso_program_step *step, double largest)
{
    iso_batch_norm_attrs attrs = *(const iso_batch_norm_attrs *)step->op->attrs;
    attrs.activation = ISO_FUSED_RELU;
    attrs.largest = largest;
    return iso_fusion_replace(f, step, &attrs, sizeof attrs);
}

void iso_fusion_set_input(const fusion *f, iso_program_step *step, int k, int value)
{
    step->input[k] = value;
    step->op->inputs[k] = f->program->values[value].tensor;
}

/* ---- backward ---- */

/* Whether a step is a gradient of this normalisation that reads `value` as its dy and in no other input. */
static bool takes_slope(const iso_program_step *step, const iso_program_step *norm, int value)
{
    if (!is(step, &iso_op_batch_norm_grad_sums) && !is(step, &iso_op_batch_norm_grad))
        return false;
    return step->input[DY] == value && step->input[X] == norm->input[0] && step->input[2] == norm->input[1] &&
           step->input[3] == norm->input[2];
}

/* Appends the normalisation's gamma and beta to a gradient's inputs, if it lacks them. */
static iso_status take_activation(fusion *f, iso_program_step *step, const iso_program_step *norm, int dy)
{
    iso_status status = activate(f, step, ((const iso_batch_norm_attrs *)norm->op->attrs)->largest);
    if (status != ISO_OK)
        return status;
    iso_op *op = step->op;
    const iso_batch_norm_attrs *attrs = op->attrs;
    iso_fusion_set_input(f, step, DY, dy);
    int next = 3;
    if (attrs->has_gamma) {
        if (is(step, &iso_op_batch_norm_grad_sums))
            iso_fusion_set_input(f, step, op->n_inputs++, norm->input[next]);
        next++;
    }
    if (attrs->has_beta)
        iso_fusion_set_input(f, step, op->n_inputs++, norm->input[next]);
    return ISO_OK;
}

/* Counts the gradients of the normalisation that read this slope. The slope is removed only if these are
 * all of its readers. */
static int count_takers(const fusion *f, const iso_program_step *norm, int slope)
{
    int taken = 0, value = f->program->steps[slope].output[0];
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++) {
        bool again = i > f->first_read[value] && f->reader[i] == f->reader[i - 1];
        taken += !again && f->reader[i] > slope && takes_slope(&f->program->steps[f->reader[i]], norm, value);
    }
    return taken;
}

static iso_status fuse_slope(fusion *f, const iso_program_step *norm, int number)
{
    iso_program *program = f->program;
    const iso_program_step *slope = &program->steps[number];
    int value = slope->output[0], taken = count_takers(f, norm, number);
    if (taken == 0 || taken != f->uses[value])
        return ISO_OK;
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++) {
        iso_status status = take_activation(f, &program->steps[f->reader[i]], norm, slope->input[1]);
        if (status != ISO_OK)
            return status;
    }
    f->dead[number] = true;
    return ISO_OK;
}

/* y: the ReLU's output, which is now the normalisation's output. */
static iso_status fuse_backward(fusion *f, const iso_program_step *norm, int y)
{
    iso_status status = ISO_OK;
    for (int i = f->first_read[y]; i < f->first_read[y + 1]; i++) {
        int number = f->reader[i];
        const iso_program_step *slope = &f->program->steps[number];
        if (!f->dead[number] && is_relu(slope) && is(slope, &iso_op_unary_gradient) && slope->input[0] == y &&
            iso_fusion_one_layout(f, slope->input[1], slope->output[0]))
            ISO_TRY(fuse_slope(f, norm, number));
    }
done:
    return status;
}

/* ---- forward ---- */
static iso_status fuse_relu(fusion *f, int relu_index)
{
    iso_program *program = f->program;
    iso_program_step *relu = &program->steps[relu_index];
    int x = relu->input[0], y = relu->output[0], made = program->values[x].step;
    if (made < 0 || !is(&program->steps[made], &iso_op_batch_norm) || f->uses[x] != 1 ||
        !iso_fusion_one_layout(f, x, y))
        return ISO_OK;
    iso_program_step *norm = &program->steps[made];
    iso_status status = activate(f, norm, largest_of(relu));
    if (status != ISO_OK)
        return status;
    norm->op->outputs[0] = program->values[y].tensor;
    norm->output[0] = y;
    program->values[y].step = made;
    f->dead[relu_index] = true;
    return fuse_backward(f, norm, y);
}

/* ---- gradients of embeddings ---- */

/* Whether input k of an addition is the gradient of an embedding that nothing else reads, and the other input and
 * the sum have its shape and layout. */
static bool adds_rows(const fusion *f, const iso_program_step *sum, int k)
{
    const iso_program *program = f->program;
    int rows = sum->input[k], other = sum->input[1 - k], made = program->values[rows].step;
    const iso_tensor *tensor = program->values[rows].tensor;
    return made >= 0 && !f->dead[made] && is(&program->steps[made], &iso_op_embedding_grad) &&
           f->uses[rows] == 1 && tensor->dtype != ISO_BF16 && iso_fusion_one_layout(f, rows, other) &&
           iso_fusion_one_layout(f, rows, sum->output[0]) &&
           iso_shape_equal(&tensor->shape, &program->values[other].tensor->shape);
}

static iso_status fuse_rows(fusion *f, iso_program_step *sum, int k)
{
    int rows = f->program->values[sum->input[k]].step, base = sum->input[1 - k];
    const iso_program_step *gradient = &f->program->steps[rows];
    iso_status status = iso_fusion_replace(f, sum, gradient->op->attrs, gradient->op->type->attr_size);
    if (status != ISO_OK)
        return status;
    sum->op->type = &iso_op_embedding_grad_add;
    sum->op->n_inputs = 3;
    sum->replicas = gradient->replicas; /* it adds rows, not the table */
    iso_fusion_set_input(f, sum, 0, base);
    iso_fusion_set_input(f, sum, 1, gradient->input[0]);
    iso_fusion_set_input(f, sum, 2, gradient->input[1]);
    f->dead[rows] = true;
    return ISO_OK;
}

/* ---- layer normalisation with the residual sum ---- */

static bool alike(const fusion *f, int a, int b)
{
    const iso_tensor *x = f->program->values[a].tensor, *y = f->program->values[b].tensor;
    return x->dtype == y->dtype && iso_shape_equal(&x->shape, &y->shape) && iso_fusion_one_layout(f, a, b);
}

/* Whether a step adds two values that are like the sum. */
static bool is_plain_sum(const fusion *f, int number)
{
    const iso_program_step *step = &f->program->steps[number];
    return !f->dead[number] && is(step, &iso_op_add) && alike(f, step->input[0], step->output[0]) &&
           alike(f, step->input[1], step->output[0]);
}

/* Whether no step before this one reads a value. */
static bool reads_first(const fusion *f, int number, int value)
{
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++)
        if (f->reader[i] < number)
            return false;
    return true;
}

/* Replaces a normalisation's op by a copy with a residual. */
static iso_status take_residual(fusion *f, iso_program_step *norm, int residual)
{
    iso_layer_norm_attrs attrs = *(const iso_layer_norm_attrs *)norm->op->attrs;
    attrs.residual = true;
    iso_status status = iso_fusion_replace(f, norm, &attrs, sizeof attrs);
    if (status == ISO_OK)
        iso_fusion_set_input(f, norm, norm->op->n_inputs++, residual);
    return status;
}

/* The normalisation computes the sum that it reads: of the two addends the second, which is a layer's output, may
 * give its memory to the normalisation's. */
static iso_status fuse_residual(fusion *f, int number)
{
    iso_program *program = f->program;
    iso_program_step *norm = &program->steps[number];
    int sum = norm->input[0], made = program->values[sum].step;
    if (made < 0 || !is_plain_sum(f, made) || !reads_first(f, number, sum))
        return ISO_OK;
    const iso_program_step *add = &program->steps[made];
    iso_status status = take_residual(f, norm, add->input[0]);
    if (status != ISO_OK)
        return status;
    iso_fusion_set_input(f, norm, 0, add->input[1]);
    norm->op->outputs[1] = program->values[sum].tensor;
    norm->op->n_outputs = 2;
    norm->output[1] = sum;
    program->values[sum].step = number;
    f->dead[made] = true;
    return ISO_OK;
}

static bool has_residual(const iso_program_step *norm)
{
    return ((const iso_layer_norm_attrs *)norm->op->attrs)->residual;
}

/* The sum of a normalisation's dx and another gradient of x takes the normalisation's place. Where x is normalised
 * several times, such a sum may be an addend of another one. */
static iso_status fuse_slopes(fusion *f, int number)
{
    iso_program *program = f->program;
    iso_program_step *add = &program->steps[number];
    for (int k = 0; k < 2 && is_plain_sum(f, number); k++) {
        int slope = add->input[k], made = program->values[slope].step;
        if (made < 0 || f->dead[made] || !is(&program->steps[made], &iso_op_layer_norm_grad) ||
            has_residual(&program->steps[made]) || f->uses[slope] != 1)
            continue;
        iso_program_step norm = program->steps[made];
        iso_status status = take_residual(f, &norm, add->input[1 - k]);
        if (status != ISO_OK)
            return status;
        norm.op->outputs[0] = program->values[add->output[0]].tensor;
        norm.output[0] = add->output[0];
        *add = norm;
        f->dead[made] = true;
        return ISO_OK;
    }
    return ISO_OK;
}

/* ---- inputs ---- */

/* Whether each slot's part under `to` is in its part under `from`, but for the halo of a window. */
static bool narrows(const iso_layout *from, const iso_layout *to)
{
    bool narrows = to->partial == from->partial;
    for (int d = 0; d < from->rank; d++)
        narrows &= iso_sharding_refines(&from->dim[d], &to->dim[d]);
    return narrows;
}

/* An input that only one reshard reads is read from the batch in the reshard's layout. So of targets that are as
 * large as the images, slots read the rows of their predictions; and no halos of inputs are exchanged. */
static iso_status read_part(fusion *f, int number)
{
    iso_program *program = f->program;
    const iso_program_step *step = &program->steps[number];
    int input = step->input[0], part = step->output[0];
    iso_program_value *value = &program->values[input];
    if (step->op || value->tensor->producer->type != &iso_op_input || value->step >= 0 ||
        f->uses[input] != 1 || f->uses[part] != f->first_read[part + 1] - f->first_read[part] ||
        !narrows(&value->layout, &program->values[part].layout))
        return ISO_OK;
    value->layout = program->values[part].layout;
    for (int i = f->first_read[part]; i < f->first_read[part + 1]; i++) {
        iso_program_step *reader = &program->steps[f->reader[i]];
        for (int k = 0; k < inputs_of(reader); k++)
            if (reader->input[k] == part)
                reader->input[k] = input;
    }
    f->uses[input] = f->uses[part];
    f->dead[number] = true;
    return ISO_OK;
}

/* ---- all ---- */

typedef iso_status pass(fusion *f, int number);

static iso_status fuse_sum(fusion *f, int number)
{
    iso_program_step *step = &f->program->steps[number];
    for (int k = 0; k < 2; k++)
        if (adds_rows(f, step, k))
            return fuse_rows(f, step, k);
    return fuse_slopes(f, number);
}

/* Removes the steps that nothing needs any more. */
static void close_gaps(fusion *f)
{
    iso_program *program = f->program;
    int kept = 0;
    for (int i = 0; i < program->n_steps; i++) {
        if (f->dead[i])
            continue;
        program->steps[kept] = program->steps[i];
        const iso_program_step *step = &program->steps[kept];
        for (int k = 0; k < (step->op ? step->op->n_outputs : 1); k++)
            program->values[step->output[k]].step = kept;
        kept++;
    }
    program->n_steps = kept;
}

static iso_status fuse_step(fusion *f, int number)
{
    const iso_program_step *step = &f->program->steps[number];
    if (is(step, &iso_op_relu) || is(step, &iso_op_clipped_relu))
        return fuse_relu(f, number);
    if (is(step, &iso_op_layer_norm))
        return fuse_residual(f, number);
    return is(step, &iso_op_add) ? fuse_sum(f, number) : ISO_OK;
}

/* A pass over the steps; what it fuses is not seen by itself. */
static iso_status fuse_all(iso_program *program, pass *fuse, const iso_fusion_kernels *kernels)
{
    iso_status status = ISO_OK;
    fusion f = {.program = program,
                .kernels = kernels,
                .uses = iso_new(((size_t)program->n_values + 1) * sizeof(int)),
                .dead = iso_new((size_t)program->n_steps + 1)};
    if (!f.uses || !f.dead) {
        status = iso_error(ISO_NO_MEMORY, "no memory to fuse a program of %d steps", program->n_steps);
        goto done;
    }
    ISO_TRY(list_readers(&f));
    count_uses(&f);
    for (int i = 0; i < program->n_steps; i++)
        ISO_TRY(fuse(&f, i));
    close_gaps(&f);
done:
    iso_free(f.uses);
    iso_free(f.first_read);
    iso_free(f.reader);
    iso_free(f.dead);
    return status;
}

iso_status iso_program_fuse(iso_program *program, const iso_fusion_kernels *kernels)
{
    iso_status status = ISO_OK;
    ISO_TRY(fuse_all(program, read_part, kernels));
    if (kernels->unfolds)
        ISO_TRY(fuse_all(program, iso_fusion_unfold, kernels));
    if (kernels->rounds || kernels->normalizes)
        ISO_TRY(fuse_all(program, iso_fusion_cast, kernels));
    ISO_TRY(fuse_all(program, fuse_step, kernels));
done:
    return status;
}

void iso_program_free_fused(iso_program *program)
{
    for (int i = 0; i < program->n_fused; i++) {
        iso_free(program->fused[i]->attrs);
        iso_free(program->fused[i]);
    }
    iso_free(program->fused);
}
