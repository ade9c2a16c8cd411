/* The best checkpoint, where a checkpoint or the pointer `best` cannot be written, in the same run and in the one
 * that resumes: what is marked is the best of what is there, and it is never rotated away. The oracle is the list of
 * the monitored values. Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/isogrid.h"
#include "runtime/train/callbacks_impl.h"
#include "tests/support/callback_state.h"
#include "tests/support/data_parallel.h"
#include "tests/support/folder.h"
#include "tests/support/linear.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { ROWS = 24 };

static iso_context *ctx;
static iso_mesh *mesh;
static iso_distribution *distribution;
static char folder[64];

/* ---- renames that fail ---- */

static const char *refused; /* files of this name in their folder cannot be replaced; NULL: all can */
static int refusals;        /* how many times more; -1: always */

/* In place of the C library's, for the whole program. */
int rename(const char *from, const char *to)
{
    const char *name = strrchr(to, '/');
    if (refused && refusals != 0 && name && !strcmp(name + 1, refused)) {
        refusals--;
        errno = EIO;
        return -1;
    }
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- trainings ---- */

/* The values of a list, by epoch, become those of "val_loss". */
static iso_status give_losses(void *user, iso_fit_state *state)
{
    return iso_fit_log(state, "val_loss", ((const double *)user)[state->epoch]);
}

typedef struct run {
    const double *values;
    const char *below; /* the folder of the checkpoints, in the test's; NULL: "ck" */
    const char *resume;
    int epochs, keep;
    bool only_best; /* save_best_only instead of the pointer */
    bool backs_up;  /* a backup too, from which the run resumes if there is one */
    iso_mode mode;
} run;

static void train(const run *r)
{
    char pattern[200], backup[200];
    bool marks = !r->only_best;
    const char *below = r->below ? r->below : "ck";
    snprintf(pattern, sizeof pattern, "%s/%s/{epoch}.weights.h5", folder, below);
    snprintf(backup, sizeof backup, "%s/backup-%s", folder, below);
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.01), distribution);
    iso_dataset *data = linear_data(ctx, ROWS, NULL, NULL, 8);
    iso_callback *list[] = {iso_callback_create(.epoch_end = give_losses, .user = (void *)r->values),
                            iso_model_checkpoint(pattern, .keep = r->keep, .save_best_only = r->only_best,
                                                 .best = marks ? "val_loss" : NULL, .best_mode = r->mode),
                            r->backs_up ? iso_backup_and_restore(backup, .keep_backup = true) : NULL, NULL};
    check_ok(iso_fit(model, data, .epochs = r->epochs, .callbacks = list, .resume = r->resume,
                     .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    check_ok(iso_agree(ctx, ISO_OK));
}

/* The checkpoints of a folder, and after a colon what its pointer names. */
static void check_folder(const char *below, const char *wanted)
{
    char text[400] = "", *pointed = NULL, at[300];
    snprintf(at, sizeof at, "%s/%s", folder, below);
    if (iso_is_chief(ctx)) {
        char names[400], *rest = names;
        snprintf(names, sizeof names, "%s", names_in(at));
        for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
            if (strstr(name, ".weights.h5"))
                snprintf(text + strlen(text), sizeof text - strlen(text), "%.1s", name);
        check_ok(iso_checkpoint_pointed(at, "best", &pointed));
        if (pointed)
            snprintf(text + strlen(text), sizeof text - strlen(text), ":%.1s", pointed);
        ck_assert_str_eq(text, wanted);
        iso_free(pointed);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}

static void refuse(const char *name, int times)
{
    refused = name;
    refusals = times;
}

static void begin(void)
{
    refuse(NULL, 0);
    ck_assert_int_eq(make_test_folder(ctx, folder), ISO_OK);
}

static void end(void)
{
    refuse(NULL, 0);
    ck_assert_int_eq(remove_test_folder(ctx, folder), ISO_OK);
}

static const char *of_folder(const char *name)
{
    return in_folder(folder, name);
}

/* ---- the pointer ---- */

static const double third_best[] = {5, 3, 1, 2, 4, 4, 4};
static const double fourth_worse[] = {5, 3, 1, 4, 6}; /* than the second, too */

START_TEST(the_next_save_moves_the_pointer)
{
    train(&(run){.values = third_best, .epochs = 2, .keep = 1});
    check_folder("ck", "2:2");
    refuse("best", 1);
    train(&(run){.values = third_best, .epochs = 4, .keep = 1, .resume = of_folder("ck")});
    check_folder("ck", "34:3");
}
END_TEST

START_TEST(the_best_stays_without_the_pointer)
{
    train(&(run){.values = third_best, .epochs = 2, .keep = 1});
    refuse("best", -1);
    train(&(run){.values = third_best, .epochs = 5, .keep = 1, .resume = of_folder("ck")});
    check_folder("ck", "235:2");
    train(&(run){.values = third_best, .epochs = 6, .keep = 1, .resume = of_folder("ck")});
    check_folder("ck", "236:2");
    refuse(NULL, 0);
    train(&(run){.values = third_best, .epochs = 7, .keep = 1, .resume = of_folder("ck")});
    check_folder("ck", "37:3");
}
END_TEST

/* The run that resumes has nothing more to train. */
START_TEST(resuming_moves_the_pointer)
{
    refuse("best", -1);
    train(&(run){.values = third_best, .epochs = 3, .keep = 1});
    check_folder("ck", "3");
    refuse(NULL, 0);
    train(&(run){.values = third_best, .epochs = 3, .keep = 1, .resume = of_folder("ck")});
    check_folder("ck", "3:3");
}
END_TEST

START_TEST(an_older_checkpoint_has_its_own_best)
{
    train(&(run){.values = third_best, .epochs = 3});
    check_folder("ck", "123:3");
    train(&(run){.values = third_best, .epochs = 1, .resume = of_folder("ck/1.weights.h5")});
    check_folder("ck", "123:1");
}
END_TEST

/* ---- checkpoints that are not committed ---- */

/* Epoch 4 is better than 2, and than all that there is. */
START_TEST(a_value_counts_when_its_checkpoint_is_there)
{
    refuse("3.weights.h5", -1);
    train(&(run){.values = third_best, .epochs = 5});
    check_folder("ck", "1245:4");
    train(&(run){.values = third_best, .epochs = 5, .below = "only", .only_best = true});
    check_folder("only", "124");
}
END_TEST

/* The backup after epoch 3 is written while the checkpoint is: it does not tell whether that was committed. */
static void resume_from_backup(const double *values, bool only_best, bool fails, const char *before,
                               const char *after)
{
    char below[20];
    snprintf(below, sizeof below, "ck-%g-%d-%d", values[3], only_best, fails);
    run r = {.values = values, .epochs = 3, .backs_up = true, .only_best = only_best, .below = below};
    refuse("3.weights.h5", fails ? -1 : 0);
    train(&r);
    check_folder(below, before);
    refuse(NULL, 0);
    r.epochs = 4;
    train(&r);
    check_folder(below, after);
}

START_TEST(a_backup_does_not_know_how_a_save_ends)
{
    resume_from_backup(third_best, false, false, "123:3", "1234:3");
    resume_from_backup(third_best, false, true, "12:2", "124:4");
    resume_from_backup(fourth_worse, false, true, "12:2", "124:2");
    resume_from_backup(third_best, true, false, "123", "123");
    resume_from_backup(third_best, true, true, "12", "124");
    resume_from_backup(fourth_worse, true, true, "12", "12");
}
END_TEST

/* Of an earlier training: its name is that of the best, its number is not. */
START_TEST(an_old_file_of_the_same_name_is_not_the_best)
{
    static const double falling[] = {6, 5, 4};
    train(&(run){.values = falling, .epochs = 3});
    refuse("3.weights.h5", -1);
    train(&(run){.values = third_best, .epochs = 3, .backs_up = true});
    check_folder("ck", "123:2");
    refuse(NULL, 0);
    train(&(run){.values = third_best, .epochs = 4, .backs_up = true});
    check_folder("ck", "1234:4");
}
END_TEST

/* ---- another folder, another mode ---- */

START_TEST(another_folder_begins_anew)
{
    train(&(run){.values = fourth_worse, .epochs = 3});
    train(
        &(run){.values = fourth_worse, .epochs = 5, .below = "new", .resume = of_folder("ck/3.weights.h5")});
    check_folder("new", "45:4");
    check_folder("ck", "123:3");
}
END_TEST

START_TEST(another_mode_begins_anew)
{
    static const double falling[] = {5, 3, 2, 1};
    train(&(run){.values = falling, .epochs = 3});
    train(&(run){.values = falling, .epochs = 4, .mode = ISO_MODE_MAX, .resume = of_folder("ck")});
    check_folder("ck", "1234:4");
}
END_TEST

/* ---- states ---- */

typedef struct handed {
    iso_callback **list;
    const char *state;
} handed;

static iso_status hand_state(void *user, iso_fit_state *state)
{
    const handed *h = user;
    return state->epoch == 0 ? restore_state(h->list, h->state) : ISO_OK;
}

/* The state of a version that stored values alone: no epoch of this run is better than 2.5. */
START_TEST(states_without_names_are_read)
{
    static const double values[] = {3, 4};
    char pattern[200];
    snprintf(pattern, sizeof pattern, "%s/ck/{epoch}.weights.h5", folder);
    iso_model *model = linear_model_compiled(ctx, iso_sgd(0.01), distribution);
    iso_dataset *data = linear_data(ctx, ROWS, NULL, NULL, 8);
    iso_callback *saving[] = {iso_model_checkpoint(pattern, .best = "val_loss"), NULL};
    handed h = {saving, "[{\"kind\": \"model_checkpoint\", \"state\": {\"seen\": 0, "
                        "\"monitor\": {\"best\": null}, \"marked\": {\"best\": 2.5}}}]"};
    iso_callback *list[] = {iso_callback_create(.epoch_end = give_losses, .user = (void *)values), saving[0],
                            iso_callback_create(.epoch_begin = hand_state, .user = &h), NULL};
    check_ok(iso_fit(model, data, .epochs = 2, .callbacks = list, .verbose = ISO_ZERO));
    check_folder("ck", "12");
    iso_dataset_destroy(data);
    iso_model_destroy(model);
}
END_TEST

int main(void)
{
    int failed = 1;
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0); /* several hosts where there are several ranks */
    iso_status status = data_parallel_begin("data=4", &ctx, &mesh, &distribution);
    if (status == ISO_OK)
        failed = RUN_TESTS_WITH(
            "best", 0, begin, end, the_next_save_moves_the_pointer, the_best_stays_without_the_pointer,
            resuming_moves_the_pointer, an_older_checkpoint_has_its_own_best,
            a_value_counts_when_its_checkpoint_is_there, a_backup_does_not_know_how_a_save_ends,
            an_old_file_of_the_same_name_is_not_the_best, another_folder_begins_anew,
            another_mode_begins_anew, states_without_names_are_read);
    return data_parallel_end(ctx, mesh, distribution, status) || failed;
}
