/* Classes of slots: a question that has the same answer for all slots whose boxes have equal extents is asked
 * for one slot of each class, so that plans for many slots cost no more than plans for few.
 *
 * Along an axis, parts are full up to some coordinate, then there is one shorter part, then there are
 * empty ones. If windows reach over the borders, the first and the last part may differ from those between
 * them. */
#include "runtime/plan/plan_impl.h"

enum { ALL = 64, COORDINATES = 24 }; /* on meshes of up to ALL slots every slot is examined */

typedef struct coordinates {
    int count;
    int at[COORDINATES];
} coordinates;

static void classes_add(coordinates *list, int64_t coordinate, int size)
{
    if (coordinate < 0 || coordinate >= size || list->count == COORDINATES)
        return;
    for (int i = 0; i < list->count; i++)
        if (list->at[i] == coordinate)
            return;
    list->at[list->count++] = (int)coordinate;
}

/* Adds the coordinates at which n elements, split into `parts`, change from full parts to the shorter one, and from
 * it to empty ones. */
static int64_t add_changes(coordinates *list, int64_t n, int parts)
{
    int64_t part = (n + parts - 1) / parts, full = part ? n / part : 0;
    for (int64_t c = full - 1; c <= full + 1; c++)
        classes_add(list, c, parts);
    return part;
}

/* Adds, for each axis, the coordinates at which an array of this layout may change its extents. */
static void add_layout(const iso_mesh *mesh, const iso_layout *layout, const iso_shape *shape,
                       coordinates *lists)
{
    for (int d = 0; d < layout->rank; d++) {
        const iso_sharding *sharding = &layout->dim[d];
        int64_t whole = iso_sharding_has_window(sharding) ? sharding->window.positions : shape->dim[d],
                rest = whole; /* extents of full parts, and of shorter ones */
        for (int i = 0; i < layout->dim[d].count; i++) {
            int axis = layout->dim[d].axis[i], size = mesh->size[axis];
            coordinates *list = &lists[axis];
            classes_add(list, 1, size);
            classes_add(list, size - 2, size);
            classes_add(list, size - 1, size);
            add_changes(list, rest, size);
            int64_t part = add_changes(list, whole, size);
            rest = part ? whole % part : 0;
            whole = part;
        }
    }
}

static void classes_add_value(const iso_plan *plan, int value, coordinates *lists)
{
    iso_shape shape = iso_plan_shape(plan, value);
    add_layout(plan->program->mesh, &plan->program->values[value].layout, &shape, lists);
}

typedef struct walk {
    const iso_plan *plan;
    int step;
    iso_kernel_test is;
    coordinates lists[ISO_MAX_AXES];
} walk;

static bool ask(const walk *w, int slot)
{
    iso_array in[ISO_MAX_INPUTS], out[ISO_MAX_OUTPUTS];
    iso_kernel_call call;
    iso_plan_call(w->plan, w->step, slot, in, out, &call);
    const iso_kernel *kernel =
        w->plan->site->backend->find(w->plan->program->steps[w->step].op->type->name, &call);
    return kernel && w->is(kernel, &call);
}

static bool ask_from(const walk *w, int axis, int slot)
{
    const iso_mesh *mesh = w->plan->program->mesh;
    if (axis >= ISO_MAX_AXES || axis == mesh->n_axes)
        return ask(w, slot);
    for (int i = 0; i < w->lists[axis].count; i++)
        if (!ask_from(w, axis + 1, iso_mesh_with_coordinate(mesh, slot, axis, w->lists[axis].at[i])))
            return false;
    return true;
}

bool iso_plan_all_kernels(const iso_plan *plan, int number, iso_kernel_test is)
{
    const iso_program_step *step = &plan->program->steps[number];
    const iso_mesh *mesh = plan->program->mesh;
    walk w = {.plan = plan, .step = number, .is = is};
    if (mesh->n_slots <= ALL) {
        for (int slot = 0; slot < mesh->n_slots; slot++)
            if (!ask(&w, slot))
                return false;
        return true;
    }
    for (int a = 0; a < mesh->n_axes; a++)
        classes_add(&w.lists[a], 0, mesh->size[a]);
    for (int i = 0; i < step->op->n_inputs; i++)
        classes_add_value(plan, step->input[i], w.lists);
    for (int i = 0; i < step->op->n_outputs; i++)
        classes_add_value(plan, step->output[i], w.lists);
    return ask_from(&w, 0, 0);
}
