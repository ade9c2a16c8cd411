/* The replica check of iso_fit (.check_replicas): a bit that changes in one host's copy of a variable, whole or
 * sharded, ends training with the host, the variable, the element and its values, before a checkpoint is
 * written; the last good one is named. Without such a fault nothing is found and no number changes.
 * Ranks: 1, 3, 8   More: 2 Sanitize: 3 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/models.h"
#include "runtime/base/device.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/isogrid_mpi.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { INPUTS = 37, HIDDEN = 131, OUTPUTS = 3, ROWS = 55, BATCH = 11, STEPS = ROWS / BATCH };

__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* MPI keeps memory */
}

/* ---- a training with a fault ---- */

typedef struct setting {
    const char *mesh, *layout; /* of the first kernel; NULL: replicated */
    int zero;
    iso_dtype precision;
} setting;

typedef struct fault {
    int step;         /* after which step; 0: none */
    int slot;         /* in the copy of this slot's host */
    const char *path; /* of the variable */
    int only_domain;  /* 1 + the number of the memory domain whose copy it is; 0: those of the host */
    bool at_epoch_end;
    /* what was found and done */
    int host;
    int64_t element; /* of the global tensor; -1: no copy of the host has another one beside it */
    int copies;
    uint64_t before, after;
    int64_t dims[2];
    int rank, bytes;
} fault;

typedef struct training {
    iso_context *ctx;
    setting set;
    fault fault[3];
    int64_t every;
    int seen;           /* steps */
    const char *frozen; /* a layer; NULL: none */
    const char *checkpoint, *backup, *resume;
    int64_t save_freq;
    iso_fingerprint sum;
    iso_status status;
    char message[4096];
} training;

static int own_host(const training *t)
{
    return iso_host_of_rank(t->ctx, iso_rank(t->ctx));
}

static bool is_in(const fault *f, const iso_state_shard *s)
{
    return !strcmp(s->path, f->path) && s->copies > 1 &&
           (f->only_domain == 0 || s->domain == f->only_domain - 1);
}

/* The last element of the variable that the host's copy has and another host's has too. */
static void find_element(const training *t, const iso_state_shards *shards, fault *f)
{
    int64_t found[] = {-1, 0, 0, 0, 0};
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *s = &shards->shards[i];
        int64_t last = iso_box_global_index(&s->box, &s->shape, s->begin + s->count - 1);
        if (!is_in(f, s) || own_host(t) != f->host || last < found[0])
            continue;
        found[0] = last;
        found[1] = s->copies;
        found[2] = s->shape.rank > 0 ? s->shape.dim[0] : 0;
        found[3] = s->shape.rank > 1 ? s->shape.dim[1] : 0;
        found[4] = (int64_t)iso_dtype_size(s->dtype);
    }
    check_ok(iso_all_reduce(t->ctx, ISO_REDUCE_MAX, ISO_I64, found, 5));
    f->element = found[0];
    f->copies = (int)found[1];
    f->dims[0] = found[2];
    f->dims[1] = found[3];
    f->bytes = (int)found[4];
}

/* Changes the lowest bit (fault number 0), or another one, of this element. */
static void change_element(const training *t, const iso_state_shards *shards, fault *f)
{
    uint64_t bits[] = {0, 0};
    for (int i = 0; i < shards->count; i++) {
        const iso_state_shard *s = &shards->shards[i];
        int64_t last = iso_box_global_index(&s->box, &s->shape, s->begin + s->count - 1);
        if (!is_in(f, s) || own_host(t) != f->host || last != f->element)
            continue;
        char *values = malloc(iso_shard_bytes(s)),
             *element = values + iso_shard_bytes(s) - iso_dtype_size(s->dtype);
        check_ok(iso_shard_read(s, values));
        memcpy(&bits[0], element, iso_dtype_size(s->dtype));
        *element = (char)(*element ^ (1 << (f - t->fault)));
        memcpy(&bits[1], element, iso_dtype_size(s->dtype));
        check_ok(iso_shard_write(s, values));
        free(values);
    }
    check_ok(iso_all_reduce(t->ctx, ISO_REDUCE_OR, ISO_I64, bits, 2));
    f->before = bits[0];
    f->after = bits[1];
}

static void make_faults(training *t, iso_model *model, bool at_epoch_end)
{
    iso_state_shards shards;
    for (int i = 0; i < 3; i++) {
        fault *f = &t->fault[i];
        if (f->step == 0 || f->step != t->seen || f->at_epoch_end != at_epoch_end)
            continue;
        check_ok(iso_graph_shards(iso_model_graph(model), &shards));
        find_element(t, &shards, f);
        if (f->element >= 0)
            change_element(t, &shards, f);
        iso_state_shards_free(&shards);
    }
}

static iso_status after_step(void *user, iso_fit_state *state)
{
    training *t = user;
    t->seen++;
    make_faults(t, state->model, false);
    return ISO_OK;
}

static iso_status after_epoch(void *user, iso_fit_state *state)
{
    make_faults(user, state->model, true);
    return ISO_OK;
}

static iso_model *build(const training *t)
{
    iso_graph *g = iso_graph_create(t->ctx);
    iso_graph_set_precision(g, t->set.precision);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(INPUTS));
    iso_tensor *h = iso_batch_norm(iso_dense(x, HIDDEN, .name = "d1"), .name = "bn");
    iso_model *model =
        iso_model_create(g, x, iso_dense(iso_relu(h), OUTPUTS, .name = "d2", .activation = ISO_SOFTMAX));
    if (t->frozen)
        check_ok(iso_model_set_trainable(model, t->frozen, false));
    return model;
}

enum { SLOTS = 8 };

/* Slots are spread over the ranks, so that all hosts have some if there are enough. */
static void place(training *t, iso_mesh **mesh)
{
    iso_mesh *abstract;
    int rank_of_slot[SLOTS], slots, ranks = iso_ranks(t->ctx);
    check_ok(iso_mesh_abstract(t->ctx, t->set.mesh, &abstract));
    slots = iso_mesh_slots(abstract);
    iso_mesh_destroy(abstract);
    for (int s = 0; s < slots; s++)
        rank_of_slot[s] = s * ranks / slots;
    for (int i = 0; i < 3; i++)
        t->fault[i].host = iso_host_of_rank(t->ctx, rank_of_slot[t->fault[i].slot % slots]);
    check_ok(iso_mesh_create_on(t->ctx, t->set.mesh, rank_of_slot, slots, mesh));
}

static void distribute(training *t, iso_mesh **mesh, iso_layout_map **map, iso_distribution **how)
{
    place(t, mesh);
    check_ok(iso_layout_map_create(*mesh, map));
    if (t->set.layout)
        check_ok(iso_layout_map_set(*map, "d1/kernel", t->set.layout));
    check_ok(iso_model_parallel_create(*map, how, .batch_axis = "data"));
    if (t->set.zero)
        check_ok(iso_distribution_set_zero(*how, t->set.zero));
}

static iso_status fit(training *t, iso_model *model, iso_dataset *data)
{
    iso_callback *list[4] = {iso_callback_create(.batch_end = after_step, .epoch_end = after_epoch,
                                                 .collective = true, .user = t)};
    int count = 1;
    if (t->checkpoint)
        list[count++] = iso_model_checkpoint(t->checkpoint, .save_freq = t->save_freq);
    if (t->backup)
        list[count++] = iso_backup_and_restore(t->backup, .save_freq = t->save_freq);
    return iso_fit(model, data, .epochs = 2, .verbose = ISO_ZERO, .callbacks = list,
                   .check_replicas = t->every, .resume = t->resume);
}

/* Two epochs of five steps; the last batch of each is the fifth. */
static void train(training *t)
{
    iso_mesh *mesh = NULL;
    iso_layout_map *map = NULL;
    iso_distribution *distribution = NULL;
    iso_dataset *data = NULL;
    t->seen = t->resume ? t->seen : 0;
    distribute(t, &mesh, &map, &distribution);
    iso_model *model = build(t);
    check_ok(iso_dataset_random(t->ctx, ROWS, &data, .shape = ISO_SHAPE(INPUTS), .classes = OUTPUTS));
    check_ok(iso_dataset_batch(data, BATCH));
    check_ok(iso_compile(model, .optimizer = iso_adam(), .loss = ISO_LOSS_SPARSE_CROSSENTROPY,
                         .distribution = distribution));
    t->status = fit(t, model, data);
    snprintf(t->message, sizeof t->message, "%s", t->status == ISO_OK ? "" : iso_error_message());
    check_ok(iso_graph_fingerprint(iso_model_graph(model), &t->sum));
    iso_model_destroy(model);
    iso_dataset_destroy(data);
    iso_distribution_destroy(distribution);
    iso_layout_map_destroy(map);
    iso_mesh_destroy(mesh);
}

/* ---- expectations ---- */

static void expect_part(const training *t, const char *part)
{
    ck_assert_msg(strstr(t->message, part) != NULL, "mesh %s, zero %d: '%s' is not in '%s'", t->set.mesh,
                  t->set.zero, part, t->message);
}

static void name_host(const training *t, int host, char *text, size_t size)
{
    char name[65] = {0};
    int first = 0, count = 0;
    gethostname(name, 64);
    for (int rank = iso_ranks(t->ctx) - 1; rank >= 0; rank--)
        if (iso_host_of_rank(t->ctx, rank) == host) {
            first = rank;
            count++;
        }
    snprintf(text, size, count > 1 ? "host %d (%s, ranks %d, " : "host %d (%s, rank %d)", host, name, first);
}

/* What the message must say of the first fault: variable, host, element and values. */
static void expect_fault(const training *t, int step)
{
    char part[300], host[100];
    const fault *f = &t->fault[0];
    ck_assert_msg(t->status == ISO_FAILED, "mesh %s, zero %d, %s: status %d, %s", t->set.mesh, t->set.zero,
                  f->path, t->status, t->message);
    ck_assert_int_eq(iso_status_exit_code(t->status), 1);
    snprintf(part, sizeof part, "replica check after step %d: the copies of '%s' differ between hosts: host ",
             step, f->path);
    ck_assert_msg(!strncmp(t->message, part, strlen(part)), "'%s' does not begin '%s'", part, t->message);
    name_host(t, f->host, host, sizeof host);
    expect_part(t, host);
    snprintf(part, sizeof part, "(0x%0*" PRIx64 ")", 2 * f->bytes, f->before);
    expect_part(t, part);
    snprintf(part, sizeof part, "(0x%0*" PRIx64 ")", 2 * f->bytes, f->after);
    expect_part(t, part);
    if (f->dims[1])
        snprintf(part, sizeof part, ") at [%d, %d]", (int)(f->element / f->dims[1]),
                 (int)(f->element % f->dims[1]));
    else
        snprintf(part, sizeof part, f->dims[0] ? ") at [%d]" : "(0x", (int)f->element);
    expect_part(t, part);
    snprintf(part, sizeof part, ", the %d other hosts that agree have ", f->copies - 1);
    if (f->copies > 2)
        expect_part(t, part);
}

/* ---- contexts ---- */

/* A context whose hosts have so many ranks. */
static iso_context *begin(int ranks_per_host)
{
    iso_context *ctx;
    char text[16];
    snprintf(text, sizeof text, "%d", ranks_per_host);
    setenv("ISOGRID_RANKS_PER_HOST", text, 1);
    check_ok(iso_init_on(MPI_COMM_WORLD, NULL, NULL, &ctx));
    return ctx;
}

static void end(iso_context *ctx)
{
    ck_assert_int_eq(iso_finish(ctx, ISO_OK), 0);
}

static int world(void)
{
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return ranks;
}

/* A host of several ranks where there are many. */
static int usual_host(void)
{
    return world() > 4 ? 2 : 1;
}

/* ---- tests ---- */

static const char *const variables[] = {
    "d1/kernel", "optimizer/iteration", "bn/moving_mean", "d1/bias", "bn/gamma", "d2/kernel"};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

/* A fault in each variable, in the copy of one host after another. */
static int try_variables(const setting *set, int per_host, int count)
{
    int faults = 0;
    iso_context *ctx = begin(per_host);
    for (int v = 0; v < count && iso_hosts(ctx) > 1; v++) {
        training t = {.ctx = ctx, .set = *set, .every = 3};
        t.fault[0] = (fault){.step = 3, .path = variables[v], .slot = v + 1};
        train(&t);
        if (t.fault[0].element >= 0)
            expect_fault(&t, 3);
        else
            ck_assert_msg(t.status == ISO_OK, "%s", t.message);
        faults += t.fault[0].element >= 0;
    }
    end(ctx);
    return faults;
}

START_TEST(test_each_variable)
{
    int faults = try_variables(&(setting){"data=4", NULL, 0, ISO_F32}, usual_host(), VARIABLES);
    ck_assert_int_eq(faults, world() > 1 ? VARIABLES : 0);
}
END_TEST

START_TEST(test_sharded_variables)
{
    static const setting settings[] = {
        {"data=2,model=2", "-, model", 0, ISO_F32},
        {"data=2,model=2", "model, -", 0, ISO_F64},
        {"data=4", NULL, 2, ISO_F32},
        {"data=4", NULL, 3, ISO_F32},
        {"data=3", NULL, 3, ISO_F64},
    };
    for (int s = 0; s < 5; s++) {
        int faults = try_variables(&settings[s], 1, 3);
        ck_assert_msg(world() == 1 || faults >= (settings[s].zero == 3 ? 1 : 3),
                      "mesh %s, zero %d: %d faults", settings[s].mesh, settings[s].zero, faults);
        if (world() > 4)
            try_variables(&settings[s], 2, 2);
    }
}
END_TEST

/* Trained weights are distributed anew in each step; a frozen one keeps its fault until the check. */
START_TEST(test_only_every_n_steps)
{
    iso_context *ctx = begin(usual_host());
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = 4, .frozen = "d1"};
    t.fault[0] = (fault){.step = 5, .path = "d1/kernel"};
    train(&t);
    if (iso_hosts(ctx) > 1) {
        expect_fault(&t, 8);
        expect_part(&t, "Training has stopped; no checkpoint has been written");
        ck_assert_int_eq(t.seen, 8);
    }
    end(ctx);
}
END_TEST

/* After the last step of an epoch, and when training ends: before what the program saves. */
START_TEST(test_at_the_end)
{
    iso_context *ctx = begin(usual_host());
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = 1000};
    t.fault[0] = (fault){.step = 10, .path = "d2/kernel", .at_epoch_end = true};
    train(&t);
    if (iso_hosts(ctx) > 1)
        expect_fault(&t, 10);
    end(ctx);
}
END_TEST

/* ---- checkpoints ---- */

static char folder[64];

static void expect_files(const training *t, const char *wanted)
{
    const char *names = names_in(folder);
    if (iso_rank(t->ctx) == 0)
        ck_assert_str_eq(names, wanted);
}

START_TEST(test_no_checkpoint_of_the_step)
{
    iso_context *ctx = begin(usual_host());
    char path[100], part[300];
    check_ok(make_test_folder(ctx, folder));
    snprintf(path, sizeof path, "%s/{epoch}-{batch}.weights.h5", folder);
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = 7, .checkpoint = path};
    t.save_freq = 2;
    t.fault[0] = (fault){.step = 4, .path = "d1/kernel", .slot = 2};
    train(&t);
    if (iso_hosts(ctx) > 1) {
        expect_fault(&t, 4);
        expect_files(&t, "1-2.weights.h5 latest");
        snprintf(part, sizeof part,
                 "Training has stopped; the last good checkpoint is '%s/1-2.weights.h5' (step 2)", folder);
        expect_part(&t, part);
    } else
        check_ok(t.status);
    check_ok(remove_test_folder(ctx, folder));
    end(ctx);
}
END_TEST

/* At the end of an epoch; and the backup is neither replaced nor removed. Training resumes from it. */
START_TEST(test_backup_stays)
{
    iso_context *ctx = begin(usual_host());
    char path[100], part[300];
    check_ok(make_test_folder(ctx, folder));
    snprintf(path, sizeof path, "%s/backup", folder);
    training whole = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}}, t = whole;
    train(&whole);
    t.every = 5;
    t.backup = path;
    t.fault[0] = (fault){.step = 10, .path = "d1/bias", .at_epoch_end = true};
    train(&t);
    if (iso_hosts(ctx) > 1) {
        expect_fault(&t, 10);
        snprintf(part, sizeof part, "the last good checkpoint is '%s/backup.weights.h5' (step 5)", path);
        expect_part(&t, part);
        t.fault[0] = (fault){.step = 5, .path = "d1/bias"}; /* the fifth step after it */
        t.save_freq = 100;
        train(&t);
        expect_fault(&t, 10);
        snprintf(part, sizeof part,
                 "since the one from which training resumed, '%s/backup.weights.h5' (step 5)", path);
        expect_part(&t, part);
    }
    t.fault[0].step = 0;
    train(&t);
    ck_assert_msg(t.status == ISO_OK, "%s", t.message);
    ck_assert_mem_eq(&t.sum, &whole.sum, sizeof t.sum);
    check_ok(remove_test_folder(ctx, folder));
    end(ctx);
}
END_TEST

/* ---- several faults ---- */

START_TEST(test_several_faults)
{
    iso_context *ctx = begin(1);
    training t = {.ctx = ctx, .set = {"data=3", NULL, 0, ISO_F32}, .every = 2};
    t.fault[0] = (fault){.step = 2, .path = "d1/kernel", .slot = 2};
    t.fault[1] = (fault){.step = 2, .path = "d2/bias"};
    t.fault[2] = (fault){.step = 2, .path = "bn/beta", .slot = 2};
    train(&t);
    if (iso_hosts(ctx) > 1) {
        expect_fault(&t, 2);
        expect_part(&t, "; also different: 'bn/beta', 'd2/bias'.");
    }
    end(ctx);
}
END_TEST

/* Three hosts with three different copies. */
START_TEST(test_no_majority)
{
    char part[100];
    if (world() < 3)
        return;
    iso_context *ctx = begin((world() + 2) / 3);
    training t = {.ctx = ctx, .set = {"data=3", NULL, 0, ISO_F32}, .every = 2};
    if (world() > 3)
        t.set.mesh = "data=8";
    for (int host = 0; host < 3; host++)
        t.fault[host] = (fault){.step = 2, .path = "d1/kernel", .slot = world() > 3 ? 3 * host : host};
    train(&t);
    ck_assert_int_eq(t.status, ISO_FAILED);
    expect_part(&t, "differ between hosts: host 1 (");
    snprintf(part, sizeof part, "(0x%08" PRIx64 ")", t.fault[1].after);
    expect_part(&t, part);
    snprintf(part, sizeof part, "(0x%08" PRIx64 ")", t.fault[0].after);
    expect_part(&t, part);
    expect_part(&t, "; host 2 (");
    expect_part(&t, " differs too; no copy is that of most hosts");
    end(ctx);
}
END_TEST

/* A host with two memory domains has two copies. */
START_TEST(test_domains_of_a_host)
{
    iso_context *ctx = begin(world());
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = 1};
    t.fault[0] = (fault){.step = 2, .path = "d1/kernel", .slot = 3, .only_domain = 2};
    setenv("ISOGRID_SLOTS_PER_DOMAIN", "2", 1);
    train(&t);
    unsetenv("ISOGRID_SLOTS_PER_DOMAIN");
    ck_assert_int_eq(t.status, ISO_FAILED);
    expect_part(&t, "replica check after step 2: the copies of 'd1/kernel' differ between memory domains: ");
    expect_part(&t, ": memory domain 1 of host 0 (");
    expect_part(&t, ", memory domain 0 of host 0 (");
    end(ctx);
}
END_TEST

/* ---- without a fault ---- */

START_TEST(test_nothing_changes)
{
    static const setting settings[] = {{"data=4", NULL, 0, ISO_F32},
                                       {"data=2,model=2", "-, model", 0, ISO_F64},
                                       {"data=4", NULL, 3, ISO_F32}};
    for (int s = 0; s < 3; s++) {
        iso_context *ctx = begin(1);
        training without = {.ctx = ctx, .set = settings[s]}, with = without;
        with.every = 1;
        train(&without);
        train(&with);
        ck_assert_msg(with.status == ISO_OK, "%s", with.message);
        ck_assert_mem_eq(&with.sum, &without.sum, sizeof with.sum);
        end(ctx);
    }
}
END_TEST

/* The bytes that are compared are those of all copies. */
START_TEST(test_what_is_compared)
{
    iso_context *ctx = begin(1);
    iso_function *f;
    int64_t compared = -1;
    iso_graph *g = iso_graph_create(ctx);
    iso_tensor *x = iso_input(g, "x", ISO_F32, ISO_SHAPE(5));
    iso_tensor *y = iso_dense(x, 7);
    check_refused(iso_graph_check_replicas(g, &compared), "before its first function is made");
    check_ok(iso_function_create(g, &f, .inputs = {x}, .outputs = {y}, .parts = true));
    check_ok(iso_graph_check_replicas(g, &compared));
    ck_assert_int_eq(compared, world() > 1 ? world() * (5 * 7 + 7) * 4 : 0);
    check_ok(iso_graph_check_replicas(g, NULL));
    iso_function_destroy(f);
    iso_graph_destroy(g);
    end(ctx);
}
END_TEST

/* Runs a training with stderr in a file; returns its size, summed over ranks. */
static int64_t written_to_stderr(training *t, char *text, size_t size)
{
    FILE *file = tmpfile();
    int kept = dup(2);
    fflush(stderr);
    dup2(fileno(file), 2);
    train(t);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    rewind(file);
    int64_t bytes = (int64_t)fread(text, 1, size - 1, file);
    text[bytes] = 0;
    fclose(file);
    check_ok(iso_all_reduce(t->ctx, ISO_REDUCE_SUM, ISO_I64, &bytes, 1));
    return bytes;
}

START_TEST(test_one_host_is_told)
{
    static const char line[] =
        "isogrid: warning: the replica check (every 2 steps) has nothing to compare: there "
        "is one host\n";
    char text[1000];
    iso_context *ctx = begin(world());
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = 2};
    ck_assert_int_eq(written_to_stderr(&t, text, sizeof text), (int64_t)strlen(line));
    ck_assert_str_eq(text, iso_rank(ctx) == 0 ? line : "");
    check_ok(t.status);
    ck_assert_int_eq(t.seen, 10);
    end(ctx);
}
END_TEST

START_TEST(test_bad_options)
{
    iso_context *ctx = begin(1);
    training t = {.ctx = ctx, .set = {"data=4", NULL, 0, ISO_F32}, .every = -2};
    train(&t);
    ck_assert_int_eq(t.status, ISO_INVALID);
    expect_part(&t, "fit: check_replicas is -2, it must not be negative");
    t.every = iso_rank(ctx) == world() - 1 ? 2 : 3;
    train(&t);
    if (world() > 1) {
        ck_assert_int_eq(t.status, ISO_INVALID);
        expect_part(&t, ", replicas compared every 3 steps'");
    }
    end(ctx);
}
END_TEST

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int failed =
        RUN_TESTS("replica check", 100, test_each_variable, test_sharded_variables, test_only_every_n_steps,
                  test_at_the_end, test_no_checkpoint_of_the_step, test_backup_stays, test_several_faults,
                  test_no_majority, test_domains_of_a_host, test_nothing_changes, test_what_is_compared,
                  test_one_host_is_told, test_bad_options);
    MPI_Finalize();
    return failed;
}
