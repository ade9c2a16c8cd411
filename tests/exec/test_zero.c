/* ZeRO by layout: every level gives the numbers of one slot, on meshes whose axes divide nothing, and is
 * nothing but the layouts that it stands for; bytes and memory fall as theory has it. Each rank is a host of
 * its own. Ranks: 1, 3   More: 5 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/memory.h"
#include "runtime/exec/function/function_impl.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"
#include "tests/support/trial.h"

static iso_context *ctx;

enum { STEPS = 3, ROWS = 13, MOST_RANKS = 8 };
static const double tolerance = 1e-10;

/* A mesh on which every rank has one slot. */
static const char *own_mesh(char *text, size_t size)
{
    snprintf(text, size, "data=%d", iso_ranks(ctx));
    return text;
}

/* ---- numbers ---- */

typedef struct setting {
    const char *mesh;
    int level;
    const char *const *layouts; /* keys and layouts, to NULL */
} setting;

static void begin(trial *t, const net_kind *kind, const setting *s, iso_dtype precision,
                  const iso_optimizer *optimizer)
{
    trial_begin(t, ctx, kind, precision, ROWS);
    trial_mesh(t, s->mesh, NULL);
    t->zero = s->level;
    for (int i = 0; s->layouts && s->layouts[i]; i += 2)
        trial_layout(t, s->layouts[i], s->layouts[i + 1]);
    trial_make(t, s->layouts || strchr(s->mesh, ',') ? "data" : NULL, optimizer);
}

static double *train(const net_kind *kind, const setting *s, iso_dtype precision,
                     const iso_optimizer *optimizer, int64_t *count)
{
    trial t;
    begin(&t, kind, s, precision, optimizer);
    for (int i = 0; i < STEPS; i++)
        trial_step(&t, i);
    double *weights = trial_weights(&t, count);
    trial_end(&t);
    return weights;
}

/* One slot where there is one rank; else as few as there can be, without ZeRO. */
static double *train_plain(const net_kind *kind, const iso_optimizer *optimizer, int64_t *count)
{
    char mesh[32];
    setting s = {.mesh = own_mesh(mesh, sizeof mesh)};
    return train(kind, &s, ISO_F64, optimizer, count);
}

static void compare(const net_kind *kind, const setting *s, const iso_optimizer *optimizer,
                    const double *plain, int64_t count)
{
    int64_t same;
    double *many = train(kind, s, ISO_F64, optimizer, &same);
    ck_assert(same == count);
    for (int64_t i = 0; i < count; i++)
        ck_assert_msg(fabs(plain[i] - many[i]) <= tolerance * fmax(1, fabs(plain[i])),
                      "%s, mesh %s, ZeRO %d: weight %lld is %.17g instead of %.17g", kind->name, s->mesh,
                      s->level, (long long)i, many[i], plain[i]);
    free(many);
}

/* On more ranks than the machine has cores, on fewer meshes: these wait for each other. */
static void compare_all(const net_kind *kind, const iso_optimizer *optimizer)
{
    static const char *const meshes[] = {"data=5", "data=8", "data=3", "data=3,model=2", "data=2"};
    int64_t count;
    double *plain = train_plain(kind, optimizer, &count);
    for (int m = 0; m < (iso_ranks(ctx) > 3 ? 1 : 5); m++)
        for (int level = 1; level <= 3; level++)
            if (slots_of_mesh(meshes[m]) >= iso_ranks(ctx))
                compare(kind, &(setting){meshes[m], level, NULL}, optimizer, plain, count);
    free(plain);
}

START_TEST(any_level_gives_the_numbers_of_one_slot)
{
    static const char *const kinds[] = {"mlp", "convnet", "words", "attention", "merges"};
    iso_optimizer adam = iso_adam(0.01);
    int few = iso_ranks(ctx) == 1 ? 5 : iso_ranks(ctx) > 3 ? 1 : 2;
    for (int k = 0; k < few; k++)
        compare_all(net_kind_find(kinds[k]), &adam);
}
END_TEST

START_TEST(gradients_are_clipped_and_gathered_in_parts)
{
    const net_kind *kind = net_kind_find("mlp");
    iso_optimizer clipped = iso_adam(0.01, .global_clip_norm = 0.05), each = iso_sgd(0.1, .clip_norm = 0.02),
                  gathered = iso_adam(0.01, .accumulation = 2);
    compare_all(kind, &clipped);
    if (iso_ranks(ctx) > 3)
        return;
    compare_all(kind, &each);
    compare_all(kind, &gathered);
}
END_TEST

/* Rules that are built from ops: norms and means count each element once, wherever it lies. */
START_TEST(rules_of_ops_give_the_numbers_of_one_slot)
{
    const net_kind *kind = net_kind_find("mlp");
    const iso_optimizer rules[] = {
        iso_lamb(.schedule = iso_cosine_decay(0.01, 5), .weight_decay = 0.1, .global_clip_norm = 0.05),
        iso_adafactor(0.02, .clip_threshold = 0.5, .weight_decay = 0.1),
        iso_muon(0.01, .clip_norm = 0.5),
        iso_lamb(0.01, .accumulation = 2, .use_ema = true),
        iso_adafactor(0.02, .accumulation = 2),
        iso_muon(0.01, .accumulation = 2),
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules && (i < 3 || iso_ranks(ctx) <= 3); i++)
        compare_all(kind, &rules[i]);
}
END_TEST

/* The variables in which gradients are gathered over steps are cut as the slots are, not as their variables.
 */
START_TEST(gathered_gradients_are_cut)
{
    trial t;
    char text[32];
    iso_plan_report *report;
    iso_optimizer adam = iso_adam(0.01, .accumulation = 2);
    int gathered = 0;
    begin(&t, net_kind_find("mlp"), &(setting){own_mesh(text, sizeof text), 1, NULL}, ISO_F32, &adam);
    check_ok(iso_function_report(t.train, ROWS, &report));
    for (int i = 0; i < report->n_variables; i++) {
        const iso_report_variable *v = &report->variables[i];
        bool gathers = strstr(v->path, "gradient_accumulator") != NULL;
        ck_assert_msg(!strstr(v->layout, "data") == !(gathers && iso_ranks(ctx) > 1), "%s lies as '%s'",
                      v->path, v->layout);
        gathered += gathers;
    }
    ck_assert_int_eq(gathered, 7);
    iso_plan_report_destroy(report);
    trial_end(&t);
}
END_TEST

/* ---- layouts of slots ---- */

/* Slots that are cut as their variable is not: finer, along other dimensions, over the axis that cuts the
 * variable elsewhere, or one of two slots only. */
START_TEST(slots_lie_as_their_keys_say)
{
    static const char *const layouts[][9] = {
        {"optimizer:.*kernel/.*", "-, data", NULL},
        {"optimizer:.*kernel/.*", "data, -", "optimizer:.*bias/.*", "data", NULL},
        {"optimizer:.*kernel/momentum", "model, data", NULL},
        {"a/kernel", "-, model", "optimizer:a/kernel/.*", "data, -", NULL},
        {"a/kernel", "-, model", "optimizer:a/kernel/.*", "-, data+model", NULL},
        {"a/kernel", "model, -", "a/bias", "model", "optimizer:a/kernel/.*", "data, model", NULL},
        {"b/kernel", "model+data, -", "optimizer:b/kernel/gradient", "-, model", NULL},
    };
    iso_optimizer adam = iso_adam(0.01);
    const net_kind *kind = net_kind_find("mlp");
    int64_t count;
    double *plain = train_plain(kind, &adam, &count);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        compare(kind, &(setting){"data=3,model=2", 0, layouts[l]}, &adam, plain, count);
        compare(kind, &(setting){"data=2,model=4", 3, layouts[l]}, &adam, plain, count);
    }
    free(plain);
}
END_TEST

/* ---- layouts that the levels stand for ---- */

enum { KEYS = 128, TEXT = 96 };

typedef struct keys {
    int count;
    char text[KEYS][TEXT];
    const char *list[KEYS + 1];
} keys;

static void add_key(keys *k, const char *prefix, const char *path, const char *rest, const char *layout)
{
    snprintf(k->text[k->count], TEXT, "%s%s%s", prefix, path, rest);
    snprintf(k->text[k->count + 1], TEXT, "%s", layout);
    k->list[k->count] = k->text[k->count];
    k->list[k->count + 1] = k->text[k->count + 1];
    k->count += 2;
}

/* "-, data": cut along the first dimension that the slots divide, else along the largest. */
static bool cut_layout(const iso_shape *shape, int slots, char *text)
{
    int cut = -1;
    for (int d = shape->rank - 1; d >= 0; d--)
        if (shape->dim[d] > 1 && shape->dim[d] % slots == 0)
            cut = d;
    for (int d = 0; d < shape->rank && (cut < 0 || shape->dim[cut] % slots); d++)
        if (shape->dim[d] > 1 && (cut < 0 || shape->dim[d] > shape->dim[cut]))
            cut = d;
    text[0] = 0;
    for (int d = 0; d < shape->rank; d++)
        strcat(strcat(text, d ? ", " : ""), d == cut ? "data" : "-");
    return cut >= 0;
}

static void batch_layout(const iso_shape *shape, char *text)
{
    strcpy(text, "data");
    for (int d = 1; d < shape->rank; d++)
        strcat(text, ", -");
}

/* What docs/zero.md says that a level is. */
static void keys_of(const net_kind *kind, int level, int slots, keys *k)
{
    trial t;
    char layout[TEXT];
    memset(k, 0, sizeof *k);
    trial_begin(&t, ctx, kind, ISO_F32, ROWS);
    for (int v = 0; v < iso_graph_variable_count(t.net.graph); v++) {
        iso_variable *variable = iso_graph_variable(t.net.graph, v);
        if (!iso_variable_trainable(variable) || !cut_layout(iso_variable_shape(variable), slots, layout))
            continue;
        add_key(k, "optimizer:", iso_variable_path(variable), "/.*", layout);
        if (level == 3)
            add_key(k, "", iso_variable_path(variable), "", layout);
    }
    for (int i = 0; level == 3 && i < iso_graph_layer_count(t.net.graph); i++) {
        const iso_layer_record *layer = iso_graph_layer(t.net.graph, i);
        if (iso_tensor_shape(layer->output)->rank == 0 ||
            iso_tensor_shape(layer->output)->dim[0] != ISO_BATCH)
            continue;
        batch_layout(iso_tensor_shape(layer->output), layout);
        add_key(k, "", layer->name, "/output", layout);
    }
    trial_end(&t);
}

static uint64_t program_of(const net_kind *kind, const setting *s)
{
    trial t;
    iso_optimizer adam = iso_adam(0.01);
    begin(&t, kind, s, ISO_F32, &adam);
    iso_text lines = {0};
    iso_program_list(t.train->program, &lines);
    uint64_t hash = iso_hash_text(0, iso_text_get(&lines));
    iso_text_free(&lines);
    trial_end(&t);
    return hash;
}

static void compare_with_layouts(const net_kind *kind, const char *mesh, int level)
{
    keys k;
    keys_of(kind, level, slots_of_mesh(mesh), &k);
    iso_optimizer adam = iso_adam(0.01);
    setting zero = {mesh, level, NULL}, layouts = {mesh, 0, k.list}, none = {mesh, 0, NULL};
    int64_t count;
    double *a = train(kind, &zero, ISO_F32, &adam, &count),
           *b = train(kind, &layouts, ISO_F32, &adam, &count);
    ck_assert_msg(program_of(kind, &zero) == program_of(kind, &layouts), "%s: ZeRO %d on %s is no program",
                  kind->name, level, mesh);
    ck_assert(program_of(kind, &zero) != program_of(kind, &none));
    ck_assert_msg(memcmp(a, b, (size_t)count * sizeof *a) == 0, "%s: ZeRO %d on %s has other bits",
                  kind->name, level, mesh);
    free(a);
    free(b);
}

START_TEST(a_level_is_the_layouts_that_it_stands_for)
{
    static const char *const meshes[] = {"data=3", "data=5", "data=8"};
    for (int m = 0; m < (iso_ranks(ctx) > 3 ? 2 : 3); m++)
        for (int level = 2; level <= 3; level++)
            if (slots_of_mesh(meshes[m]) >= iso_ranks(ctx)) {
                compare_with_layouts(net_kind_find("mlp"), meshes[m], level);
                compare_with_layouts(net_kind_find("convnet"), meshes[m], level);
            }
}
END_TEST

enum { IN = 24, WIDE = 60, OUT = 7 };

/* Layers of which none but the first is as wide as its input. */
static void stack(net *n)
{
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(IN));
    iso_tensor *x = iso_dense(n->input[0], WIDE, .activation = ISO_RELU, .no_bias = true, .name = "a");
    x = iso_dense(x, WIDE + 4, .activation = ISO_RELU, .name = "b");
    n->loss = iso_mean(iso_square(iso_dense(x, OUT, .name = "c")));
}

static const net_kind stack_kind = {"stack", stack};
/* What is gathered of gradients is cut further than its variable: along a dimension that the variable has
 * whole, even where the slots divide the one that is cut. */
START_TEST(what_is_cut_already_is_cut_elsewhere)
{
    static const char *const layouts[] = {"b/kernel", "model, -", "c/kernel", "model, -",
                                          NULL}; /* [60, 64], [64, 7] */
    iso_optimizer adam = iso_adam(0.01, .accumulation = 2);
    trial t;
    iso_plan_report *report;
    int found = 0;
    begin(&t, &stack_kind, &(setting){"data=3,model=2", 1, layouts}, ISO_F32, &adam);
    check_ok(iso_function_report(t.train, ROWS, &report));
    for (int v = 0; v < report->n_variables; v++) {
        const iso_report_variable *r = &report->variables[v];
        bool b = strstr(r->path, "b/kernel") != NULL, c = strstr(r->path, "c/kernel") != NULL;
        if (!strstr(r->path, "gradient_accumulator") || (!b && !c))
            continue;
        ck_assert_msg(strcmp(r->layout, b ? "model, data" : "model+data, -") == 0, "%s lies as '%s'", r->path,
                      r->layout);
        found++;
    }
    ck_assert_int_eq(found, 2);
    iso_plan_report_destroy(report);
    trial_end(&t);
}
END_TEST

/* What is not linear in gradients waits for their sums, of which each slot takes its part: no sum is made
 * whole. */
START_TEST(clipped_gradients_are_scattered)
{
    const iso_optimizer clipped[] = {iso_adam(0.01, .clip_norm = 0.02),
                                     iso_adam(0.01, .global_clip_norm = 0.05),
                                     iso_adam(0.01, .clip_value = 0.01), iso_adam(0.01, .accumulation = 2)};
    char text[32];
    for (size_t i = 0; i < sizeof clipped / sizeof *clipped; i++) {
        trial t;
        iso_plan_report *report;
        int scatters = 0, slots = iso_ranks(ctx);
        double scalar = sizeof(double) * slots * (slots - 1); /* each slot takes all others' */
        begin(&t, &stack_kind, &(setting){own_mesh(text, sizeof text), 1, NULL}, ISO_F32, &clipped[i]);
        check_ok(iso_function_report(t.train, ROWS, &report));
        for (int c = 0; c < report->n_collectives; c++) {
            const iso_report_collective *collective = &report->collectives[c];
            scatters += strcmp(collective->kind, "reduce-scatter") == 0;
            ck_assert_msg(strcmp(collective->kind, "all-reduce") != 0 || collective->bytes <= scalar,
                          "optimizer %zu: an all-reduce of %.0f bytes, %s", i, (double)collective->bytes,
                          collective->tensor);
        }
        ck_assert_msg(iso_ranks(ctx) == 1 || scatters > 0, "optimizer %zu: nothing is scattered", i);
        iso_plan_report_destroy(report);
        trial_end(&t);
    }
}
END_TEST

START_TEST(other_levels_are_refused)
{
    trial t;
    trial_begin(&t, ctx, net_kind_find("mlp"), ISO_F32, ROWS);
    check_ok(iso_data_parallel_create(NULL, &t.distribution));
    ck_assert(iso_distribution_set_zero(t.distribution, 0) == ISO_INVALID);
    ck_assert(iso_distribution_set_zero(t.distribution, 4) == ISO_INVALID);
    ck_assert(strstr(iso_error_message(), "4"));
    trial_end(&t);
}
END_TEST

/* ---- bytes ---- */

static const double first = IN * WIDE, kernels = WIDE * (WIDE + 4) + (WIDE + 4) * OUT,
                    biases = WIDE + 4 + OUT;

/* Planned and counted, of all slots. */
static double bytes_of_step(const setting *s, const iso_optimizer *optimizer)
{
    trial t;
    iso_plan_facts facts;
    double counted[2], all[2 * MOST_RANKS], bytes = 0;
    begin(&t, &stack_kind, s, ISO_F32, optimizer);
    for (int i = 0; i < STEPS; i++)
        trial_step(&t, i);
    check_ok(iso_function_facts(t.train, ROWS, &facts));
    iso_function_counted(t.train, &counted[0], &counted[1]);
    check_ok(iso_gather_all(ctx, counted, sizeof counted, all));
    for (int r = 0; r < iso_ranks(ctx); r++)
        bytes += all[2 * r + 1] / STEPS;
    ck_assert_msg(bytes == facts.exchanged_bytes, "%.0f bytes counted, %.0f planned", bytes,
                  facts.exchanged_bytes);
    trial_end(&t);
    return bytes;
}

/* With one slot a host: data parallel takes each weight's other addends and its other new parts, ZeRO 2 the
 * same earlier, ZeRO 3 half as much again for the weights that the backward pass takes once more: all kernels
 * but the first, whose layer's input has no gradient. Besides, losses and faults. */
START_TEST(bytes_are_those_of_theory)
{
    char text[32];
    const char *mesh = own_mesh(text, sizeof text);
    int n = iso_ranks(ctx);
    if (n == 1 || iso_hosts(ctx) < n)
        return;
    double scalars = 2.0 * n * (n - 1) * sizeof(double), each = (n - 1) * (double)sizeof(float);
    double all = first + kernels + biases;
    iso_optimizer sgd = iso_sgd(0.1), clipped = iso_sgd(0.1, .global_clip_norm = 0.1);
    ck_assert_double_eq(bytes_of_step(&(setting){mesh, 1, NULL}, &sgd) - scalars, 2 * each * all);
    ck_assert_double_eq(bytes_of_step(&(setting){mesh, 2, NULL}, &sgd) - scalars, 2 * each * all);
    ck_assert_double_eq(bytes_of_step(&(setting){mesh, 3, NULL}, &sgd) - scalars,
                        2 * each * all + each * kernels);
    /* the norm is one more number, the sum of the addends of all variables */
    ck_assert_double_eq(bytes_of_step(&(setting){mesh, 1, NULL}, &clipped) - scalars,
                        2 * each * all + n * (n - 1.0) * sizeof(double));
}
END_TEST

/* ---- memory ---- */

enum { LAYERS = 6, HIDDEN = 600 };

static void tower(net *n)
{
    char name[16];
    /* names of which each begins as the one before, as Keras's do: t, t_1, t_12 */
    n->input[n->inputs++] = iso_input(n->graph, "x", ISO_F32, ISO_SHAPE(HIDDEN));
    iso_tensor *x = n->input[0];
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "t%.*s", i ? i + 1 : 0, "_1234567");
        x = iso_dense(x, HIDDEN, .activation = ISO_TANH, .no_bias = true, .name = name);
    }
    n->loss = iso_mean(iso_square(x));
}

static const net_kind tower_kind = {"tower", tower};
static const double layer_bytes = (double)sizeof(float) * HIDDEN * HIDDEN;

static void check_close(double have, double want, const char *what, int level)
{
    ck_assert_msg(fabs(have - want) <= 0.02 * want, "ZeRO %d: %s of %.0f bytes instead of %.0f", level, what,
                  have, want);
}

/* What the plan states for a slot alone on its host; *taken: what this process holds for it. */
static iso_report_memory memory_of(const char *mesh, int level, double *taken)
{
    trial t;
    iso_plan_report *report;
    iso_optimizer adam = iso_adam(0.01);
    double before = (double)iso_memory_held();
    begin(&t, &tower_kind, &(setting){mesh, level, NULL}, ISO_F32, &adam);
    check_ok(iso_function_prepare(t.train, ROWS));
    *taken = (double)iso_memory_held() - before;
    check_ok(iso_function_report(t.train, ROWS, &report));
    iso_report_memory memory = report->host;
    iso_plan_report_destroy(report);
    trial_step(&t, 0);
    trial_end(&t);
    return memory;
}

/* Level 1 splits the state of Adam; 2 the gradients too, of which one layer's is whole, while the layer
 * before's is on its way; 3 the weights too, of which two layers' are gathered. */
START_TEST(memory_falls_as_planned)
{
    char text[32];
    const char *mesh = own_mesh(text, sizeof text);
    double n = iso_ranks(ctx), all = LAYERS * layer_bytes, taken, last = HUGE_VAL;
    for (int level = 1; n > 1 && iso_hosts(ctx) == iso_ranks(ctx) && level <= 3; level++) {
        iso_report_memory memory = memory_of(mesh, level, &taken);
        check_close((double)memory.weights, level == 3 ? all / n : all, "weights", level);
        check_close((double)memory.gradients, level >= 2 ? all / n : all, "gradients", level);
        check_close((double)memory.optimizer, 2 * all / n, "optimizer state", level);
        check_close((double)memory.total, taken, "all", level);
        ck_assert_msg(taken < last - layer_bytes, "ZeRO %d takes %.0f bytes, the level before %.0f", level,
                      taken, last);
        last = taken;
    }
}
END_TEST

/* ---- overlap ---- */

/* Between hosts, what is gathered for a layer travels while the one before computes, and gradients while the
 * next are made. */
START_TEST(messages_travel_while_slots_compute)
{
    char text[32];
    trial t;
    iso_plan_report *report;
    iso_optimizer adam = iso_adam(0.01);
    int gathers = 0, scatters = 0, ahead = 0, behind = 0;
    begin(&t, &tower_kind, &(setting){own_mesh(text, sizeof text), 3, NULL}, ISO_F32, &adam);
    check_ok(iso_function_report(t.train, ROWS, &report));
    for (int i = 0; i < report->n_collectives; i++) {
        const iso_report_collective *c = &report->collectives[i];
        bool gather = strcmp(c->kind, "all-gather") == 0, scatter = strcmp(c->kind, "reduce-scatter") == 0;
        gathers += gather;
        scatters += scatter;
        ahead += gather && c->overlaps > 0;
        behind += scatter && c->overlaps > 0;
    }
    iso_plan_report_destroy(report);
    trial_end(&t);
    if (iso_ranks(ctx) == 1)
        return;
    ck_assert_int_eq(gathers, 2 * LAYERS - 1);
    ck_assert_int_eq(scatters, LAYERS);
    ck_assert_msg(ahead >= gathers - 2, "%d of %d gathers begin early", ahead, gathers);
    ck_assert_msg(behind >= scatters - 1, "%d of %d scatters end late", behind, scatters);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "1", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    int failed =
        status == ISO_OK &&
        RUN_TESTS("zero", 0, any_level_gives_the_numbers_of_one_slot,
                  gradients_are_clipped_and_gathered_in_parts, rules_of_ops_give_the_numbers_of_one_slot,
                  gathered_gradients_are_cut, slots_lie_as_their_keys_say,
                  a_level_is_the_layouts_that_it_stands_for, what_is_cut_already_is_cut_elsewhere,
                  clipped_gradients_are_scattered, other_levels_are_refused, bytes_are_those_of_theory,
                  memory_falls_as_planned, messages_travel_while_slots_compute);
    if (failed)
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
