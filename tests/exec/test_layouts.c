/* Any layout gives the numbers of one slot: small networks of all ops, and networks of random layers, on random
 * meshes with random layouts of variables, inputs and outputs, in float64 and float32, after several steps and one
 * of a smaller batch; what is counted is what the plan states; nothing is gathered that a rule lets stay sharded;
 * and the bits do not depend on where slots live, in bfloat16 either. ISOGRID_TEST_CASE=n repeats one case,
 * ISOGRID_TEST_CASES=n makes so many; with --collectives mpi or nccl bits are not compared.
 * Ranks: 1, 3   More: 2   Timeout: 1800 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/function/function_impl.h"
#include "runtime/graph/ops/list.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/economy.h"
#include "tests/support/random_net.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;
static const char *program_name;
static int *op_counts; /* of each type of op: steps in the programs so far */

/* In one process, and in several; in CI, and by hand. */
enum { STEPS = 5, CASES = 400, CASES_OF_RANKS = 24, MANY_CASES = 4000, MOST_SLOTS = 8 };

/* ---- random choices ---- */

static void random_key(dice *d, int axes, trial *t, const char *key, int rank)
{
    char text[256];
    random_layout(d, axes, rank, text, sizeof text);
    trial_layout(t, key, text);
}

/* The layer is the first one with this name, and those that share its weights have outputs of as many dimensions. */
static bool stands_for_name(const iso_graph *graph, int layer)
{
    const iso_tensor *output = iso_graph_layer(graph, layer)->output;
    for (int l = 0; l < iso_graph_layer_count(graph); l++) {
        const iso_tensor *other = iso_graph_layer(graph, l)->output;
        bool same = strcmp(iso_tensor_name(other), iso_tensor_name(output)) == 0;
        if (same && (l < layer || iso_tensor_shape(other)->rank != iso_tensor_shape(output)->rank))
            return false;
    }
    return true;
}

static void random_layouts(dice *d, int axes, trial *t)
{
    char key[128];
    for (int v = 0; v < iso_graph_variable_count(t->net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, v);
        int rank = iso_variable_shape(variable)->rank;
        if (rank > 0 && throw_dice(d, 3))
            random_key(d, axes, t, iso_variable_path(variable), rank);
        snprintf(key, sizeof key, "optimizer:%s/.*", iso_variable_path(variable));
        if (rank > 0 && iso_variable_trainable(variable) && throw_dice(d, 4) == 0)
            random_key(d, axes, t, key, rank);
    }
    for (int l = 0; l < iso_graph_layer_count(t->net.graph); l++) {
        iso_tensor *output = iso_graph_layer(t->net.graph, l)->output;
        const char *name = iso_tensor_name(output);
        if (throw_dice(d, 2) && strstr(name, "/output") && stands_for_name(t->net.graph, l))
            random_key(d, axes, t, name, iso_tensor_shape(output)->rank);
    }
    for (int i = 0; i < t->net.inputs; i++) {
        snprintf(key, sizeof key, "%s/output", iso_tensor_name(t->net.input[i]));
        if (throw_dice(d, 3) == 0)
            random_key(d, axes, t, key, iso_tensor_shape(t->net.input[i])->rank);
    }
}

static iso_optimizer random_rule(dice *d)
{
    switch (throw_dice(d, 7)) {
    case 0:
        return iso_sgd(0.1);
    case 1:
        return iso_sgd(0.05, .momentum = 0.9, .nesterov = true);
    case 2:
        return iso_adam(0.01, .amsgrad = throw_dice(d, 2));
    case 3:
        return iso_adamw(0.01, .no_decay = "bias");
    case 4:
        return iso_rmsprop(0.01, .centered = true, .momentum = 0.5);
    case 5:
        return iso_nadam(0.01);
    default:
        return iso_adagrad(0.05);
    }
}

static iso_optimizer random_optimizer(dice *d)
{
    iso_optimizer o = random_rule(d);
    double *clips[] = {&o.clip_norm, &o.clip_value, &o.global_clip_norm};
    if (throw_dice(d, 2))
        *clips[throw_dice(d, 3)] = 0.2;
    if (throw_dice(d, 3) == 0)
        o.accumulation = 2 + throw_dice(d, 2);
    if (throw_dice(d, 3) == 0)
        o.weight_decay = 0.05;
    if (throw_dice(d, 3) == 0)
        o.schedule =
            iso_cosine_decay(o.learning_rate, 4, .warmup_target = 2 * o.learning_rate, .warmup_steps = 2);
    return o;
}

/* What a number stands for; the dice go on with its mesh and layouts. */
typedef struct test_case {
    int number;
    net_kind kind;
    bool is_random; /* the network, too */
    int64_t rows;
    iso_optimizer optimizer;
    dice d;
} test_case;

static test_case case_of(int number)
{
    test_case c = {.number = number, .d = dice_for(number)};
    int kind = throw_dice(&c.d, 2 * net_kind_count());
    c.is_random = kind >= net_kind_count();
    c.kind = c.is_random ? random_net_kind(number) : net_kinds[kind];
    c.rows = 1 + throw_dice(&c.d, 13);
    c.optimizer = random_optimizer(&c.d);
    if (number % 5 == 2) {
        c.optimizer.use_ema = true;
        c.optimizer.ema_momentum = 0.6;
        c.optimizer.ema_overwrite_frequency = c.optimizer.accumulation > 1 ? 0 : 2;
    }
    return c;
}

/* Constrains weights in some cases: a norm along a dimension that is sharded is a sum over slots. */
static void constrain(const test_case *c, const trial *t)
{
    static const iso_constraint_kind kinds[] = {ISO_CONSTRAINT_MAX_NORM, ISO_CONSTRAINT_NON_NEG,
                                                ISO_CONSTRAINT_MIN_MAX_NORM};
    for (int i = 0; c->number % 5 == 4 && i < iso_graph_variable_count(t->net.graph); i++) {
        iso_variable *variable = iso_graph_variable(t->net.graph, i);
        int rank = iso_variable_shape(variable)->rank;
        if (!iso_variable_trainable(variable) || rank == 0)
            continue;
        iso_weight_constraint constraint = {.kind = kinds[i % 3],
                                            .max_value = 0.5,
                                            .rate = 0.5,
                                            .axis = {(i + c->number) % rank},
                                            .axis_count = 1};
        iso_variable_set_constraint(variable, iso_constrain(iso_variable_value(variable), &constraint));
    }
}

/* A trial on a random mesh with random layouts. slots_on: how many ranks host the slots, 0: all, in blocks.
 */
static void lay_out(const test_case *c, trial *t, iso_dtype precision, int slots_on,
                    const iso_optimizer *optimizer)
{
    dice d = c->d, of_ranks = dice_for(-c->number);
    char mesh[128];
    int rank_of_slot[MOST_SLOTS];
    trial_begin(t, ctx, &c->kind, precision, c->rows);
    snprintf(t->what, sizeof t->what,
             "repeat with: ISOGRID_TEST_CASE=%d launch/mpirun -np %d %s\n%s, %d rows, %s: ", c->number,
             iso_ranks(ctx), program_name, c->kind.name, (int)c->rows, c->optimizer.rule);
    constrain(c, t);
    int axes = random_mesh(&d, iso_ranks(ctx), mesh, sizeof mesh);
    random_ranks(&of_ranks, slots_on ? slots_on : 1, MOST_SLOTS, rank_of_slot);
    trial_mesh(t, mesh, slots_on ? rank_of_slot : NULL);
    random_layouts(&d, axes, t);
    t->zero = throw_dice(&d, 2) ? 0 : 1 + throw_dice(&d, 3);
    trial_make(t, dice_axis[throw_dice(&d, axes)], optimizer);
}

/* ---- one case ---- */

/* Losses of the steps, of one more of a smaller batch, the weights after them, and the loss in inference. */
typedef struct numbers {
    double loss[STEPS + 1], inference;
    int64_t count;
    double *weights;
} numbers;

static void train(trial *t, int accumulation, numbers *out)
{
    for (int i = 0; i < STEPS; i++)
        out->loss[i] = trial_step(t, i);
    if (!t->train->constraints) /* their operations are counted too */
        trial_check_counts(t, STEPS, accumulation);
    t->rows = (t->rows + 1) / 2;
    out->loss[STEPS] = trial_step(t, STEPS);
    out->weights = trial_weights(t, &out->count);
    out->inference = trial_infer(t, STEPS);
}

/* Of random networks some repeat an op, because what it reads is gathered for another one anyway. */
static void check_programs(const test_case *c, const trial *t)
{
    const iso_program *programs[] = {t->train->program, t->infer->program};
    for (int i = 0; i < 2; i++) {
        if (!c->is_random)
            check_economy(programs[i], t->what);
        count_op_types(programs[i], op_counts);
    }
}

/* Some random networks diverge: then they do so alike. */
static bool is_near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fmax(1, fabs(b)) || (isnan(a) && isnan(b));
}

static void compare(const trial *t, const char *what, const double *a, const double *b, int64_t count,
                    double tolerance)
{
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(is_near(a[i], b[i], tolerance), "%s: %s %lld of %lld is %.17g, on one slot %.17g",
                      t->what, what, (long long)i, (long long)count, a[i], b[i]);
}

/* What one slot computes: on rank 0, where there are several the others stand by. */
static void begin_alone(const test_case *c, trial *t, iso_dtype precision, const iso_optimizer *optimizer)
{
    const int alone[1] = {0};
    trial_begin(t, ctx, &c->kind, precision, c->rows);
    constrain(c, t);
    trial_mesh(t, "data=1", alone);
    trial_make(t, NULL, optimizer);
}

/* Ends both trials. Random networks may amplify what rounding does: many normalisations, gradients that are 0. */
static void check_float64(const test_case *c, trial *t, numbers *spread, numbers *alone)
{
    ck_assert_int_eq(alone->count, spread->count);
    double tolerance = c->is_random ? 1e-7 : 1e-9;
    compare(t, "loss", spread->loss, alone->loss, STEPS + 1, tolerance);
    compare(t, "weight", spread->weights, alone->weights, alone->count, tolerance);
    compare(t, "loss in inference", &spread->inference, &alone->inference, 1, tolerance);
    check_programs(c, t);
    trial_end(t);
    free(alone->weights);
    free(spread->weights);
}

static void train_alone(const test_case *c, numbers *alone)
{
    trial t;
    begin_alone(c, &t, ISO_F64, &c->optimizer);
    train(&t, c->optimizer.accumulation, alone);
    trial_end(&t);
}

static void run_float64(const test_case *c)
{
    trial t;
    numbers alone, spread;
    train_alone(c, &alone);
    lay_out(c, &t, ISO_F64, 0, &c->optimizer);
    train(&t, c->optimizer.accumulation, &spread);
    check_float64(c, &t, &spread, &alone);
}

/* Attention with keys sharded by an axis that does not shard its queries: random layouts rarely give that. */
static void run_sharded_keys(void)
{
    test_case c = {.kind = *net_kind_find("keys"), .rows = 5, .optimizer = iso_sgd(0.1)};
    trial t;
    numbers alone, spread;
    train_alone(&c, &alone);
    trial_begin(&t, ctx, &c.kind, ISO_F64, c.rows);
    snprintf(t.what, sizeof t.what, "sharded keys: ");
    trial_mesh(&t, "data=2,model=3", NULL);
    trial_layout(&t, "values/output", "-, model, -");
    trial_make(&t, "data", &c.optimizer);
    train(&t, false, &spread);
    check_float64(&c, &t, &spread, &alone);
}

/* The same in float32, whose kernels are others, by plain descent, which rounding sends elsewhere in random networks
 * alone: of these the losses before and after the first update. */
static void run_float32(const test_case *c)
{
    iso_optimizer sgd = iso_sgd(0.02);
    trial t;
    numbers alone, spread;
    double tolerance = c->is_random ? 1e-3 : 1e-4;
    begin_alone(c, &t, ISO_F32, &sgd);
    train(&t, false, &alone);
    trial_end(&t);
    lay_out(c, &t, ISO_F32, 0, &sgd);
    train(&t, false, &spread);
    compare(&t, "loss in float32", spread.loss, alone.loss, c->is_random ? 2 : STEPS + 1, tolerance);
    if (!c->is_random)
        compare(&t, "weight in float32", spread.weights, alone.weights, alone.count, tolerance);
    trial_end(&t);
    free(alone.weights);
    free(spread.weights);
}

/* In bfloat16, whose kernels are others again: about the same loss before the first update. */
static void run_bfloat16(const test_case *c)
{
    trial t;
    begin_alone(c, &t, ISO_BF16, &c->optimizer);
    double alone = trial_step(&t, 0);
    trial_end(&t);
    lay_out(c, &t, ISO_BF16, 0, &c->optimizer);
    double spread = trial_step(&t, 0);
    compare(&t, "loss in bfloat16", &spread, &alone, 1, 0.05);
    trial_end(&t);
}

/* In float32, some random networks in bfloat16, with the slots on fewer and fewer ranks, anyhow: equal to the last
 * bit. */
static void run_placements(const test_case *c)
{
    iso_dtype precision = c->is_random && c->number % 8 == 0 ? ISO_BF16 : ISO_F32;
    numbers first, other;
    trial t;
    for (int ranks = iso_ranks(ctx); ranks >= 1; ranks--) {
        numbers *n = ranks == iso_ranks(ctx) ? &first : &other;
        lay_out(c, &t, precision, ranks, &c->optimizer);
        train(&t, c->optimizer.accumulation, n);
        ck_assert_msg(memcmp(n->loss, first.loss, sizeof n->loss) == 0 && n->inference == first.inference,
                      "%s: on %d ranks the losses have other bits", t.what, ranks);
        ck_assert_msg(memcmp(n->weights, first.weights, (size_t)n->count * sizeof(double)) == 0,
                      "%s: on %d ranks the weights have other bits", t.what, ranks);
        if (n == &other)
            free(other.weights);
        trial_end(&t);
    }
    free(first.weights);
}

static void run_case(int number)
{
    test_case c = case_of(number);
    run_float64(&c);
    run_float32(&c);
    if (c.is_random)
        run_bfloat16(&c);
    bool ordered = strcmp(iso_option(ctx, "collectives", "auto"), "auto") == 0;
    if (iso_ranks(ctx) > 1 && ordered && number % 4 == 0)
        run_placements(&c);
}

static int from_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* Every op in the list was in some network, in blocks where it has shards. */
static void check_all_ops_seen(void)
{
    char missing[1024] = "";
    for (int t = 0; t < iso_op_type_count(); t++) {
        size_t used = strlen(missing);
        if (!op_counts[t])
            snprintf(missing + used, sizeof missing - used, " %s", iso_op_type_at(t)->name);
    }
    ck_assert_msg(!missing[0], "no network in tests/support/nets.c had these ops:%s", missing);
}

START_TEST(random_layouts_give_the_numbers_of_one_slot)
{
    int only = from_environment("ISOGRID_TEST_CASE", -1);
    int usual = iso_ranks(ctx) > 1 ? CASES_OF_RANKS : CASES;
    int cases = from_environment("ISOGRID_TEST_CASES",
                                 getenv("ISOGRID_TEST_LONG") ? MANY_CASES / iso_ranks(ctx) : usual);
    if (only >= 0)
        run_case(only);
    else
        run_sharded_keys();
    for (int i = 0; only < 0 && i < cases; i++)
        run_case(i + iso_ranks(ctx) * 100000);
    if (only < 0 && cases >= CASES)
        check_all_ops_seen();
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = iso_init(&argc, &argv, &ctx);
    program_name = argv[0];
    op_counts = calloc((size_t)iso_op_type_count(), sizeof *op_counts);
    int failed = status == ISO_OK && RUN_TESTS("layouts", 0, random_layouts_give_the_numbers_of_one_slot);
    free(op_counts);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
