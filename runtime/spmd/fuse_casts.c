/* Fuses casts between float32 and bfloat16.
 * The rounding of a float32 sum to bfloat16 is done by the op that computes it, where the slot has the whole sum.
 * Casts of one value to one type are done once.
 * Layer normalisations and their gradients, which compute in float32, read and write bfloat16 themselves: the float32
 * copies are never written, and what the backward pass needs is kept in bfloat16. */
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "runtime/spmd/fuse_impl.h"

static bool is_normalisation(const iso_op *op)
{
    return op && (op->type == &iso_op_layer_norm || op->type == &iso_op_layer_norm_grad ||
                  op->type == &iso_op_layer_norm_grad_sums);
}

static iso_dtype dtype_of(const iso_fusion *f, int value)
{
    return f->program->values[value].tensor->dtype;
}

static iso_status copy_op(iso_fusion *f, iso_program_step *step)
{
    return iso_fusion_replace(f, step, step->op->attrs, step->op->type->attr_size);
}

/* ---- inputs ---- */

/* The cast from bfloat16 that makes input k, in one layout; -1: there is none. */
static int widening(const iso_fusion *f, const iso_program_step *step, int k)
{
    int made = f->program->values[step->input[k]].step;
    const iso_program_step *cast = made < 0 ? NULL : &f->program->steps[made];
    bool good = cast && cast->op && cast->op->type == &iso_op_cast &&
                dtype_of(f, cast->input[0]) == ISO_BF16 && dtype_of(f, step->input[k]) == ISO_F32 &&
                iso_fusion_one_layout(f, cast->input[0], step->input[k]);
    return good ? made : -1;
}

/* The step reads what the cast reads; a cast that nobody else reads is removed. */
static void read_narrow(iso_fusion *f, iso_program_step *step, int k, int cast)
{
    int narrow = f->program->steps[cast].input[0];
    f->uses[narrow]++;
    if (--f->uses[step->input[k]] == 0) {
        f->dead[cast] = true;
        f->uses[narrow]--;
    }
    iso_fusion_set_input(f, step, k, narrow);
}

/* x, and if that is bfloat16 dy. */
static iso_status fuse_inputs(iso_fusion *f, iso_program_step *step)
{
    iso_status status = ISO_OK;
    int x = widening(f, step, X);
    if (x < 0)
        return ISO_OK;
    ISO_TRY(copy_op(f, step));
    read_narrow(f, step, X, x);
    int dy = step->op->type == &iso_op_layer_norm ? -1 : widening(f, step, DY);
    if (dy >= 0)
        read_narrow(f, step, DY, dy);
done:
    return status;
}

/* ---- equal casts ---- */

/* Whether a step is a cast of the same value to the same type and layout as the cast `number`. */
static bool is_equal_cast(const iso_fusion *f, int number, int other)
{
    const iso_program_step *a = &f->program->steps[number], *b = &f->program->steps[other];
    return other > number && !f->dead[other] && b->op && b->op->type == &iso_op_cast &&
           dtype_of(f, b->output[0]) == dtype_of(f, a->output[0]) &&
           iso_fusion_one_layout(f, b->output[0], a->output[0]);
}

/* Whether all that use a value are ops that are listed as its readers. */
static bool only_ops_read(const iso_fusion *f, int value)
{
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++)
        if (!f->program->steps[f->reader[i]].op)
            return false;
    return f->uses[value] == f->first_read[value + 1] - f->first_read[value];
}

/* Those that read the result of cast `other` read that of cast `number`. */
static iso_status merge_cast(iso_fusion *f, int number, int other)
{
    iso_status status = ISO_OK;
    iso_program *program = f->program;
    const int gone = program->steps[other].output[0], kept = program->steps[number].output[0];
    if (!only_ops_read(f, gone))
        return ISO_OK;
    for (int i = f->first_read[gone]; i < f->first_read[gone + 1]; i++) {
        iso_program_step *reader = &program->steps[f->reader[i]];
        ISO_TRY(copy_op(f, reader));
        for (int k = 0; k < reader->op->n_inputs; k++)
            if (reader->input[k] == gone)
                iso_fusion_set_input(f, reader, k, kept);
    }
    f->uses[kept] += f->uses[gone];
    f->uses[program->steps[number].input[0]]--;
    f->dead[other] = true;
done:
    return status;
}

static iso_status merge_equal_casts(iso_fusion *f, int number)
{
    iso_status status = ISO_OK;
    const int from = f->program->steps[number].input[0];
    for (int i = f->first_read[from]; i < f->first_read[from + 1]; i++)
        if (is_equal_cast(f, number, f->reader[i]))
            ISO_TRY(merge_cast(f, number, f->reader[i]));
done:
    return status;
}

/* ---- outputs ---- */

/* The output of the op by which a value is made. */
static int output_of(const iso_program_step *step, int value)
{
    int k = 0;
    while (step->output[k] != value)
        k++;
    return k;
}

/* Whether the op that makes a value can round it: it is a float32 sum of a bfloat16 op, or normalised bfloat16. */
static bool can_round(const iso_fusion *f, int value)
{
    int made = f->program->values[value].step;
    const iso_program_step *step = made < 0 || f->dead[made] ? NULL : &f->program->steps[made];
    if (!step || !step->op)
        return false;
    if (is_normalisation(step->op))
        return f->kernels->normalizes && step->op->n_outputs == 1 && dtype_of(f, step->input[X]) == ISO_BF16;
    return f->kernels->rounds && step->op->widened >> output_of(step, value) & 1;
}

/* The op writes what the cast would: a sum of several slots has an exchange in between. */
static iso_status fuse_rounding(iso_fusion *f, int number)
{
    iso_program *program = f->program;
    const iso_program_step *cast = &program->steps[number];
    int wide = cast->input[0], rounded = cast->output[0];
    if (dtype_of(f, rounded) != ISO_BF16 || dtype_of(f, wide) != ISO_F32 || f->uses[wide] != 1 ||
        !can_round(f, wide) || !iso_fusion_one_layout(f, wide, rounded))
        return ISO_OK;
    int made = program->values[wide].step;
    iso_program_step *step = &program->steps[made];
    int output = output_of(step, wide);
    iso_status status = copy_op(f, step);
    if (status != ISO_OK)
        return status;
    step->op->outputs[output] = program->values[rounded].tensor;
    step->op->widened &= ~(1u << output);
    step->output[output] = rounded;
    program->values[rounded].step = made;
    f->dead[number] = true;
    return ISO_OK;
}

iso_status iso_fusion_cast(iso_fusion *f, int number)
{
    iso_program_step *step = &f->program->steps[number];
    if (f->kernels->normalizes && is_normalisation(step->op))
        return fuse_inputs(f, step);
    if (!step->op || step->op->type != &iso_op_cast || f->dead[number])
        return ISO_OK;
    iso_status status = merge_equal_casts(f, number);
    return status == ISO_OK ? fuse_rounding(f, number) : status;
}
