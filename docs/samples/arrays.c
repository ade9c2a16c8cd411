/* Functions of values, as in the guides of DTensor and of JAX's distributed arrays: sharded inputs and
 * results, one function after another, what each slot holds, variables as values. Any number of processes
 * prints the same lines, in some order, wherever --devices puts the slots. */
#include <isogrid.h>

enum { ROWS = 10, WIDTH = 6, UNITS = 4 };

typedef struct network {
    iso_graph *graph;
    iso_variable *kernel;
    iso_function *layer, *norms;
} network;

/* Two functions: h = relu(x (w + kernel)), and the sums of h's squares by columns. */
static iso_status build(network *n)
{
    iso_graph *g = n->graph;
    iso_initializer uniform = {.kind = ISO_INIT_GLOROT_UNIFORM};
    iso_status status;
    n->kernel = iso_variable_create(g, "kernel", ISO_F32, ISO_SHAPE(WIDTH, UNITS), uniform, true);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(WIDTH));
    iso_tensor *w = iso_input_unbatched(g, "w", ISO_F32, ISO_SHAPE(WIDTH, UNITS)); /* it has no rows */
    iso_tensor *h = iso_relu(iso_matmul(x, iso_add(w, iso_variable_value(n->kernel))));
    iso_tensor_set_name(h, "h/output"); /* a path for layout maps */
    ISO_TRY(iso_function_create(g, &n->layer, .inputs = {x, w}, .outputs = {h}, .parts = true));
    iso_tensor *a = iso_input(g, "a", ISO_F32, ISO_SHAPE(UNITS));
    iso_tensor *norms = iso_reduce_sum(iso_square(a), (int[]){0}, 1, false);
    ISO_TRY(iso_function_create(g, &n->norms, .inputs = {a}, .outputs = {norms}));
done:
    return status;
}

/* The slots that this rank hosts, as jax.Array.addressable_shards: nothing is sent. */
static void print_shards(const iso_value *value)
{
    for (int i = 0; i < iso_value_shard_count(value); i++) {
        iso_shard shard = iso_value_shard(value, i);
        printf("slot %d: rows %d to %d, columns %d to %d\n", shard.slot, (int)shard.box.offset[0],
               (int)(shard.box.offset[0] + shard.box.extent[0]), (int)shard.box.offset[1],
               (int)(shard.box.offset[1] + shard.box.extent[1]));
    }
}

static iso_status compute(iso_context *ctx, const network *n, iso_layout_map *map, iso_mesh *mesh)
{
    iso_layout *by_rows = NULL;
    const iso_layout *wanted = NULL;
    iso_value *x = NULL, *w = NULL, *h = NULL, *norms = NULL;
    float rows[ROWS * WIDTH], squares[UNITS];
    iso_status status;
    for (int i = 0; i < ROWS * WIDTH; i++)
        rows[i] = (float)(i % 7) - 3;
    ISO_TRY(iso_layout_create(mesh, "data+model, -", &by_rows));
    ISO_TRY(iso_value_create(by_rows, ISO_F32, ISO_SHAPE(ROWS, WIDTH), &x));
    ISO_TRY(iso_value_copy_to_mesh(x, rows));        /* jax.device_put(rows, sharding) */
    ISO_TRY(iso_variable_read_value(n->kernel, &w)); /* in the variable's layout */
    ISO_TRY(iso_function_call(n->layer, .inputs = {x, w}, .outputs = {&h})); /* h stays on its slots */
    ISO_TRY(iso_function_call(n->norms, .inputs = {h}, .outputs = {&norms}));
    ISO_TRY(iso_value_fetch(norms, squares));              /* an array on every rank */
    ISO_TRY(iso_variable_assign_value(n->kernel, w));      /* from slots to slots */
    ISO_TRY(iso_layout_map_get(map, "h/output", &wanted)); /* NULL if no key matches */
    if (iso_is_chief(ctx)) {
        iso_layout_print(iso_value_layout(h), stdout);
        printf("as the map says: %s; %d x %d parts\n",
               iso_layout_equal(iso_value_layout(h), wanted) ? "yes" : "no", iso_layout_parts(wanted, 0),
               iso_layout_parts(wanted, 1));
        printf("the sum of the first column's squares is %.3f\n", squares[0]);
    }
    print_shards(h);
done:
    iso_value_destroy(norms);
    iso_value_destroy(h);
    iso_value_destroy(w);
    iso_value_destroy(x);
    iso_layout_destroy(by_rows);
    return status;
}

static iso_status run(iso_context *ctx)
{
    network n = {.graph = iso_graph_create(ctx)};
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_status status;
    ISO_TRY(iso_mesh_create(ctx, "data=2,model=2", &mesh)); /* --devices 3,1,2,0: the ranks of its slots */
    ISO_TRY(iso_layout_map_create(mesh, &map));
    ISO_TRY(iso_layout_map_set(map, "kernel", "-, model"));
    ISO_TRY(iso_layout_map_set(map, "h/output", "data, model"));
    ISO_TRY(iso_model_parallel_create(map, &distribution, .batch_axis = "data"));
    iso_graph_distribute(n.graph, distribution);
    ISO_TRY(build(&n));
    ISO_TRY(compute(ctx, &n, map, mesh));
done:
    iso_function_destroy(n.norms);
    iso_function_destroy(n.layer);
    iso_graph_destroy(n.graph);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
    return status;
}

int main(int argc, char **argv)
{
    iso_context *ctx = NULL;
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = run(ctx);
    return iso_finish(ctx, status);
}
