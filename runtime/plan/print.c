/* The plan as text. */
#include "runtime/base/text.h"
#include "runtime/plan/plan.h"

static void print_value(const iso_plan *plan, int value, iso_text *text)
{
    const iso_program_value *v = &plan->program->value[value];
    char layout[256], shape[160];
    iso_shape fixed = iso_plan_shape(plan, value);
    iso_text_add(text, "%s %s (%s)", iso_tensor_name(v->tensor), iso_shape_text(&fixed, shape, sizeof shape),
                 iso_layout_text(plan->program->mesh, &v->layout, layout, sizeof layout));
}

static void print_moves(const iso_plan *plan, int first, int count, iso_text *text)
{
    static const char *const kinds[] = {"take", "all-reduce, adding", "all-reduce, gathering"};
    for (int i = first; i < first + count; i++) {
        const iso_move *move = &plan->move[i];
        iso_text_add(text, "           %s ", kinds[move->kind]);
        print_value(plan, move->from, text);
        iso_text_add(text, " -> ");
        print_value(plan, move->to, text);
        iso_text_add(text, "\n");
    }
}

static void print_kernel(const iso_plan *plan, int number, iso_text *text)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_call call;
    const iso_program_step *step = &plan->program->step[plan->instruction[number].step];
    iso_plan_call(plan, plan->instruction[number].step, 0, in, out, &call);
    const iso_kernel *kernel = plan->site->backend->find(step->op->type->name, &call);
    iso_text_add(text, "%s [%s] -> ", step->op->type->name, kernel ? kernel->name : "no kernel");
    print_value(plan, step->output[0], text);
    iso_text_add(text, "%s\n", step->replicas > 1 ? ", the same on several slots" : "");
}

static void print_buckets(const iso_plan *plan, iso_text *text)
{
    for (int b = 0; b < plan->buckets->count; b++) {
        const iso_bucket *bucket = &plan->buckets->bucket[b];
        iso_text_add(text,
                     "           %s of %d variables, %lld elements; replicated, update split over %d slots\n",
                     bucket->optimizer->rule, bucket->members, (long long)bucket->total, bucket->group);
    }
}

void iso_plan_print(const iso_plan *plan, iso_text *text)
{
    for (int i = 0; i < plan->instructions; i++) {
        const iso_instruction *instruction = &plan->instruction[i];
        iso_text_add(text, "%4d  ", i);
        if (instruction->kind == ISO_KERNEL) {
            print_kernel(plan, i, text);
        } else if (instruction->kind == ISO_READ) {
            iso_text_add(text, "read ");
            print_value(plan, plan->program->input_value[instruction->input], text);
            iso_text_add(text, "\n");
        } else if (instruction->kind == ISO_COPY) {
            iso_text_add(text, "slice -> ");
            print_value(plan, plan->program->step[instruction->step].output[0], text);
            iso_text_add(text, "\n");
        } else {
            iso_text_add(text, "exchange\n");
            print_moves(plan, instruction->first_move, instruction->moves, text);
        }
    }
    iso_text_add(text, "%4d  end of the step\n", plan->instructions);
    print_moves(plan, plan->finish_first_move, plan->finish_moves, text);
    print_buckets(plan, text);
}
