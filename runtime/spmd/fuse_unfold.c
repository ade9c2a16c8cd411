/* Lets kernels of convolutions take the windows along the depth of a volume themselves. The copies that unfold makes,
 * which are as many times larger than x or its gradient as the kernel is deep, are never written. */
#include "runtime/graph/ops/list.h"
#include "runtime/graph/ops/network.h"
#include "runtime/spmd/fuse_impl.h"

/* The step of this type that makes a value which is read once; -1: there is none. */
static int only_made_for(const iso_fusion *f, int value, const iso_op_type *type)
{
    const int made = f->program->values[value].step;
    const iso_program_step *step = made < 0 || f->dead[made] ? NULL : &f->program->steps[made];
    return step && step->op && step->op->type == type && f->uses[value] == 1 ? made : -1;
}

/* Whether these are the windows of the dimension before the height of volumes [.., d, h, w, c], and kernels of the
 * convolution take them. */
static bool takes_depth(const iso_program_step *convolution, const iso_program_step *windows,
                        const iso_tensor *volume)
{
    const iso_unfold_attrs *unfold = windows->op->attrs;
    const iso_conv_attrs *conv = convolution->op->attrs;
    return unfold->axis == volume->shape.rank - 4 && conv->geometry.groups == 1 && conv->depth.size == 0 &&
           volume->dtype == ISO_F32;
}

static iso_status take_depth(iso_fusion *f, iso_program_step *convolution, const iso_program_step *windows)
{
    iso_conv_attrs attrs = *(const iso_conv_attrs *)convolution->op->attrs;
    attrs.depth = ((const iso_unfold_attrs *)windows->op->attrs)->geometry;
    return iso_fusion_replace(f, convolution, &attrs, sizeof attrs);
}

/* The step of this type that reads a value which nothing else reads; -1: there is none. */
static int only_reader(const iso_fusion *f, int value, const iso_op_type *type)
{
    const int reader = f->uses[value] == 1 && f->first_read[value] < f->first_read[value + 1]
                           ? f->reader[f->first_read[value]]
                           : -1;
    const iso_program_step *step = reader < 0 || f->dead[reader] ? NULL : &f->program->steps[reader];
    return step && step->op && step->op->type == type ? reader : -1;
}

/* Whether all that read a value convolve it. */
static bool only_convolved(const iso_fusion *f, int value, const iso_program_step *windows)
{
    const iso_tensor *volume = f->program->values[windows->input[0]].tensor;
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++) {
        const iso_program_step *step = &f->program->steps[f->reader[i]];
        bool convolves =
            step->op && (step->op->type == &iso_op_conv2d || step->op->type == &iso_op_conv2d_grad_kernel);
        if (!convolves || step->input[0] != value || step->input[1] == value ||
            !takes_depth(step, windows, volume))
            return false;
    }
    return f->uses[value] > 0 && f->uses[value] == f->first_read[value + 1] - f->first_read[value];
}

/* unfold, reshape, then convolutions and gradients of their kernels */
static iso_status fuse_unfold(iso_fusion *f, int number)
{
    iso_program *program = f->program;
    const iso_program_step *windows = &program->steps[number];
    const int reshape = only_reader(f, windows->output[0], &iso_op_reshape), volume = windows->input[0];
    if (reshape < 0 || !only_convolved(f, program->steps[reshape].output[0], windows))
        return ISO_OK;
    const int value = program->steps[reshape].output[0];
    for (int i = f->first_read[value]; i < f->first_read[value + 1]; i++) {
        iso_program_step *step = &program->steps[f->reader[i]];
        iso_status status = take_depth(f, step, windows);
        if (status != ISO_OK)
            return status;
        iso_fusion_set_input(f, step, 0, volume);
    }
    f->uses[volume] += f->uses[value] - 1;
    f->dead[reshape] = f->dead[number] = true;
    return ISO_OK;
}

/* the gradient of a convolution's input, reshape, fold */
static iso_status fuse_fold(iso_fusion *f, int number)
{
    iso_program *program = f->program;
    const iso_program_step *fold = &program->steps[number];
    const int reshape = only_made_for(f, fold->input[0], &iso_op_reshape), volume = fold->output[0];
    const int made =
        reshape < 0 ? -1 : only_made_for(f, program->steps[reshape].input[0], &iso_op_conv2d_grad_input);
    if (made < 0)
        return ISO_OK;
    iso_program_step *step = &program->steps[made];
    iso_tensor *tensor = program->values[volume].tensor;
    if (!takes_depth(step, fold, tensor))
        return ISO_OK;
    iso_status status = take_depth(f, step, fold);
    if (status != ISO_OK)
        return status;
    step->op->outputs[0] = tensor;
    step->output[0] = volume;
    program->values[volume].step = made;
    f->dead[reshape] = f->dead[number] = true;
    return ISO_OK;
}

iso_status iso_fusion_unfold(iso_fusion *f, int number)
{
    const iso_op *op = f->program->steps[number].op;
    if (op && op->type == &iso_op_unfold)
        return fuse_unfold(f, number);
    return op && op->type == &iso_op_fold ? fuse_fold(f, number) : ISO_OK;
}
