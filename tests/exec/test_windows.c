/* Networks of convolutions and pools of random geometry, on images cut at random along height and width, give
 * the numbers of one slot in float64, and what they count is what the plan states. ISOGRID_TEST_CASE=n
 * repeats one case, ISOGRID_TEST_CASES=n makes so many. Ranks: 1, 3 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/random.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { STEPS = 3, FEW_CASES = 60, MANY_CASES = 3000, LAYERS = 4, MOST_SLOTS = 8 };

static uint64_t key, thrown;

/* 0..n-1 */
static int64_t dice(int64_t n)
{
    return iso_random_word(key, 0, thrown++) % (uint32_t)n;
}

/* ---- networks ---- */

/* One direction of a window over `extent` elements; at least one place. */
typedef struct direction {
    int64_t size, stride, dilation, before, after;
} direction;

static direction random_direction(int64_t extent, bool pool)
{
    direction d = {1 + dice(4), 1 + dice(4), pool ? 1 : 1 + dice(2), 0, 0};
    int64_t span = (d.size - 1) * d.dilation + 1, most = pool ? d.size : 6;
    if (dice(3)) {
        d.before = dice(most);
        d.after = dice(most);
    }
    return extent + d.before + d.after >= span ? d : (direction){1, 1, 1, 0, 0};
}

static iso_tensor *convolve(iso_tensor *x, int number)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_conv_geometry geometry = {.groups = shape->dim[3] % 2 == 0 && dice(3) == 0 ? 2 : 1};
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        direction d = random_direction(shape->dim[1 + i], false);
        size[i] = d.size;
        geometry.stride[i] = d.stride;
        geometry.dilation[i] = d.dilation;
        geometry.pad_before[i] = d.before;
        geometry.pad_after[i] = d.after;
    }
    char path[32];
    snprintf(path, sizeof path, "conv%d/kernel", number);
    iso_initializer normal = {.kind = ISO_INIT_GLOROT_UNIFORM};
    iso_variable *kernel = iso_variable_create(
        iso_tensor_graph(x), path, iso_graph_precision(iso_tensor_graph(x)),
        ISO_SHAPE(size[0], size[1], shape->dim[3] / geometry.groups, geometry.groups * (1 + dice(3))), normal,
        true);
    return iso_conv2d_op(x, iso_variable_value(kernel), &geometry);
}

static iso_tensor *pool(iso_tensor *x)
{
    const iso_shape *shape = iso_tensor_shape(x);
    iso_pool_geometry geometry;
    for (int i = 0; i < 2; i++) {
        direction d = random_direction(shape->dim[1 + i], true);
        geometry.size[i] = d.size;
        geometry.stride[i] = d.stride;
        geometry.pad_before[i] = d.before;
        geometry.pad_after[i] = d.after;
    }
    return dice(2) ? iso_max_pool2d_op(x, &geometry) : iso_average_pool2d_op(x, &geometry);
}

/* The dice fall alike each time that the network of a case is built. */
static void build(net *n)
{
    thrown = 0;
    iso_tensor *x = n->input[0] =
        iso_input(n->graph, "image", ISO_F32, ISO_SHAPE(1 + dice(13), 1 + dice(13), 1 + dice(4)));
    n->inputs = 1;
    for (int i = 0, layers = 1 + (int)dice(LAYERS); i < layers; i++) {
        x = dice(3) ? convolve(x, i) : pool(x);
        x = dice(2) ? iso_tanh(x) : x;
    }
    iso_variable *last = iso_variable_create(n->graph, "last", iso_graph_precision(n->graph), ISO_SHAPE(1),
                                             (iso_initializer){.kind = ISO_INIT_ONES}, true);
    n->loss = iso_mean(iso_square(iso_multiply(x, iso_variable_value(last))));
}

/* ---- meshes and layouts ---- */

static const char *const axes[] = {"data", "h", "w"};

static void random_mesh(char *text, size_t size)
{
    int64_t slots = 0, extent[3];
    while (slots > MOST_SLOTS || slots < iso_ranks(ctx)) {
        slots = 1;
        for (int a = 0; a < 3; a++)
            slots *= extent[a] = 1 + dice(a ? 6 : 2);
    }
    snprintf(text, size, "data=%d,h=%d,w=%d", (int)extent[0], (int)extent[1], (int)extent[2]);
}

/* The image over h and w in one way or another; sometimes a kernel over one of them too. */
static void random_layouts(trial *t)
{
    static const char *const images[] = {"data, h, w, -",   "data, h, -, -",   "data, w, h, -",
                                         "data, h+w, -, -", "data, -, w+h, -", "-, data+h, w, -",
                                         "data, -, h, w"};
    trial_layout(t, "image/output", images[dice(7)]);
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, v);
        char text[64];
        if (iso_variable_shape(variable)->rank != 4 || dice(3))
            continue;
        snprintf(text, sizeof text, dice(2) ? "-, -, %s, -" : "-, -, -, %s", axes[dice(3)]);
        trial_layout(t, iso_variable_path(variable), text);
    }
}

/* ---- cases ---- */

static double *train(trial *t, double *losses, int64_t *count)
{
    for (int i = 0; i < STEPS; i++)
        losses[i] = trial_step(t, i);
    trial_check_counts(t, STEPS, 1);
    return trial_weights(t, count);
}

/* One slot and many of one network, in float64 or float32. */
static void begin(trial *one, trial *many, int number, iso_dtype precision)
{
    const net_kind kind = {"windows", build};
    const int first[1] = {0};
    iso_optimizer sgd = iso_sgd(0.05);
    char mesh[64];
    key = iso_hash_mix((uint64_t)number + 1);
    trial_begin(one, ctx, &kind, precision, 3);
    trial_mesh(one, "data=1", first);
    trial_make(one, NULL, &sgd);
    trial_begin(many, ctx, &kind, precision, 3);
    random_mesh(mesh, sizeof mesh);
    trial_mesh(many, mesh, NULL);
    random_layouts(many);
    trial_make(many, "data", &sgd);
    size_t used = strlen(many->what);
    snprintf(many->what + used, sizeof many->what - used, " ISOGRID_TEST_CASE=%d", number);
}

static void run_case(int number)
{
    trial one, many;
    double loss[STEPS], losses[STEPS];
    int64_t count, counted;
    begin(&one, &many, number, ISO_F64);
    double *weights = train(&one, loss, &count), *others = train(&many, losses, &counted);
    ck_assert_int_eq(count, counted);
    check_near(many.what, losses, loss, STEPS, 1e-10);
    check_near(many.what, others, weights, count, 1e-10);
    trial_end(&one);
    trial_end(&many);
    free(weights);
    free(others);
}

/* Its kernels are others. */
static void run_float32(int number)
{
    trial one, many;
    begin(&one, &many, number, ISO_F32);
    for (int i = 0; i < 2; i++) {
        double a = trial_step(&one, i), b = trial_step(&many, i);
        check_near(many.what, &b, &a, 1, i ? 1e-4 : 2e-6);
    }
    trial_end(&one);
    trial_end(&many);
}

static void run_both(int number)
{
    run_case(number);
    run_float32(number);
}

static int from_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

START_TEST(random_windows_give_the_numbers_of_one_slot)
{
    int only = from_environment("ISOGRID_TEST_CASE", -1);
    int cases = from_environment("ISOGRID_TEST_CASES", getenv("ISOGRID_TEST_LONG") ? MANY_CASES : FEW_CASES);
    if (only >= 0)
        run_both(only);
    for (int i = 0; i < cases && only < 0; i++)
        run_both(i + iso_ranks(ctx) * 100000);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("windows", 0, random_windows_give_the_numbers_of_one_slot))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
