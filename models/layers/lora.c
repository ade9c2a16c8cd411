/* Low-rank adapters of kernels and tables. */
#include "runtime/graph/lora.h"
#include "models/layers/layer_impl.h"
#include "runtime/base/file.h"

/* "query/kernel" and "a" -> "query/lora_kernel_a" */
static void name_adapter(iso_text *name, const char *kernel, const char *which)
{
    const char *last = iso_file_name(kernel);
    iso_text_add(name, "%.*slora_%s_%s", (int)(last - kernel), kernel, last, which);
}

/* Makes a or b, which has the kernel's regularisation. */
static iso_variable *make(const iso_layer *layer, const iso_weight_form *kernel, const char *which,
                          iso_initializer_kind initializer, iso_shape shape)
{
    iso_text name = {0};
    name_adapter(&name, kernel->what, which);
    const iso_weight_form form = {.what = iso_layer_text(layer, &name),
                                  .default_value = initializer,
                                  .l1 = kernel->l1,
                                  .l2 = kernel->l2,
                                  .argument = kernel->argument ? kernel->argument : kernel->what};
    iso_variable *variable = iso_layer_make_weight(layer, &form, shape);
    iso_text_free(&name);
    return variable;
}

static int64_t product_of(const iso_shape *shape, int begin, int end)
{
    int64_t product = 1;
    for (int d = begin; d < end; d++)
        product *= shape->dim[d];
    return product;
}

/* x: [in..., rank] -> [in, rank] */
static iso_tensor *matrix_a(iso_tensor *x)
{
    const iso_shape *shape = iso_tensor_shape(x);
    const int last = shape->rank - 1;
    return iso_reshape_to(x, ISO_SHAPE(product_of(shape, 0, last), shape->dim[last]));
}

/* x: [rank, out...] -> [rank, out] */
static iso_tensor *matrix_b(iso_tensor *x)
{
    const iso_shape *shape = iso_tensor_shape(x);
    return iso_reshape_to(x, ISO_SHAPE(shape->dim[0], product_of(shape, 1, shape->rank)));
}

static iso_tensor *merge(iso_variable *kernel, const iso_adapter *adapter)
{
    iso_tensor *a = matrix_a(iso_variable_value(adapter->a)), *b = matrix_b(iso_variable_value(adapter->b));
    iso_tensor *change = iso_affine(iso_matmul(a, b), adapter->scale, 0);
    return iso_add(iso_variable_value(kernel), iso_reshape_to(change, *iso_variable_shape(kernel)));
}

iso_layer_adapter iso_layer_adapt(const iso_layer *layer, const iso_weight_form *kernel, int inputs)
{
    iso_variable *variable = iso_layer_find_variable(layer, kernel->what);
    iso_adapter adapter = {.rank = 0};
    iso_layer_adapter none = {NULL, NULL, 0};
    if (!variable ||
        !iso_graph_lora_of(layer->graph, iso_variable_path(variable), &adapter.rank, &adapter.scale))
        return none;
    if (kernel->constraint.kind != ISO_CONSTRAINT_NONE) {
        iso_layer_fail(layer, "its %s has a constraint, which LoRA cannot keep", kernel->what);
        return none;
    }
    const iso_shape *shape = iso_variable_shape(variable);
    iso_shape a = {.rank = inputs + 1}, b = {.rank = shape->rank - inputs + 1, .dim = {adapter.rank}};
    for (int d = 0; d < shape->rank; d++)
        *(d < inputs ? &a.dim[d] : &b.dim[d - inputs + 1]) = shape->dim[d];
    a.dim[inputs] = adapter.rank;
    adapter.a = make(layer, kernel, "a", ISO_INIT_HE_UNIFORM, a);
    adapter.b = make(layer, kernel, "b", ISO_INIT_ZEROS, b);
    if (iso_graph_error(layer->graph) != ISO_OK)
        return none;
    if (!iso_variable_adapter(variable)) {
        adapter.merged = merge(variable, &adapter);
        iso_variable_adapt(variable, &adapter);
    }
    return (iso_layer_adapter){iso_layer_cast(layer, iso_variable_value(adapter.a)),
                               iso_layer_cast(layer, iso_variable_value(adapter.b)), adapter.scale};
}

iso_tensor *iso_layer_adapted(iso_tensor *y, iso_tensor *change, double scale)
{
    return iso_add(y, scale == 1 ? change : iso_affine(change, scale, 0));
}

iso_tensor *iso_layer_adapt_product(const iso_layer *layer, const iso_weight_form *kernel, int inputs,
                                    iso_tensor *x, iso_tensor *y)
{
    const iso_layer_adapter adapter =
        iso_tensor_good(y) ? iso_layer_adapt(layer, kernel, inputs) : (iso_layer_adapter){NULL, NULL, 0};
    if (!adapter.a)
        return y;
    return iso_layer_adapted(y, iso_matmul(iso_matmul(x, matrix_a(adapter.a)), matrix_b(adapter.b)),
                             adapter.scale);
}
