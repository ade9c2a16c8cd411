/* Saves checkpoints of a known state, finds and checks them, with what the injector does meanwhile.
 *
 *   saves go FOLDER COMMITS FAULTS          goes on as a job that comes back: finds the newest checkpoint,
 * sweeps up, saves one; then all of that once more with the faults armed saves sweep FOLDER COMMITS RANK
 * HOW...  lets each call of a save, of a search and of sweeping up fail so, one after the other; RANK: 0, 1,
 * ... or all; HOW: ENOSPC, short, ...; with a + behind it (ENOSPC+) all calls from there on fail saves odd
 * FOLDER COMMITS                folders that vanish, names that are taken and the like saves images STORE
 * <LIST                looks through the images of power cuts (injector/durable.c) in STORE; LIST: of each
 * its number and the last checkpoint committed before
 *
 * FOLDER is where checkpoints lie. To COMMITS, outside of it, the number of each checkpoint is added whose
 * commit was reported. SAVES_MPIO=1: through HDF5's parallel driver. SAVES_NO_LATEST=1: `latest` is
 * not moved. SAVES_EVERY=N: only every Nth call fails (sweep). Exit codes: 0 all was well; 9 (go) no
 * fault was met; else something was lost. */
#include <dirent.h>
#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/saver.h"
#include "tests/faults/faults.h"
#include "tests/support/known_state.h"

enum { KEEP = 2, NOT_MET = 9 };

static struct run {
    iso_context *ctx;
    iso_saver *saver;
    known_state state;
    const char *folder, *commits;
    char pattern[4096];
    int rank, ranks;
    int number;        /* of the checkpoint that was tried last */
    int committed;     /* the last whose commit was reported */
    const char *fault; /* the one that is tried, for messages */
} run;

/* ---- what must hold ---- */

static void lost(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void lost(const char *format, ...)
{
    va_list arguments;
    char text[8192];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "saves: rank %d, checkpoint %d (committed: %d), faults '%s': %s\n", run.rank, run.number,
            run.committed, run.fault, text);
    fflush(NULL);
    _exit(1);
}

/* The largest of all ranks' values. */
static int most(int value)
{
    int all = value;
    MPI_Comm *workers = iso_communicator(run.ctx);
    if (workers)
        MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_MAX, *workers);
    return all;
}

/* The number of the newest checkpoint that is found, 0: none. It must not be older than `least`. */
static int check_newest(const char *folder, int least)
{
    iso_saved_file *file = NULL;
    int number = 0;
    iso_text passed = {0};
    if (iso_checkpoint_find(run.ctx, folder, "{epoch}.weights.h5", &file, &passed))
        lost("%s", iso_error_message());
    if (file && (number = known_state_of(run.ctx, iso_saved_file_path(file))) < 0)
        lost("%s", iso_error_message());
    if (number < least)
        lost("the newest that is found in %s is %d, not %d; passed over: %s", folder, number, least,
             iso_text_get(&passed));
    iso_saved_file_close(file);
    iso_text_free(&passed);
    return number;
}

static bool is_checkpoint(const char *name)
{
    static const char suffix[] = ".weights.h5";
    size_t length = strlen(name);
    return name[0] != '.' && length >= sizeof suffix && !strcmp(name + length - sizeof suffix + 1, suffix);
}

/* At most so many files that are neither checkpoints nor marks of the folder; at most so many checkpoints. */
static void check_tidy(int most_others, int most_checkpoints)
{
    DIR *list = opendir(run.folder);
    struct dirent *entry;
    int checkpoints = 0, others = 0;
    char names[4096] = "";
    while (list && (entry = readdir(list))) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "latest") || !strcmp(name, "best"))
            continue;
        *(is_checkpoint(name) ? &checkpoints : &others) += 1;
        snprintf(names + strlen(names), sizeof names - strlen(names), " %s", name);
    }
    if (list)
        closedir(list);
    if (others > most_others || checkpoints > most_checkpoints)
        lost("%d checkpoints and %d other files are there:%s", checkpoints, others, names);
    if (iso_agree(run.ctx, ISO_OK)) /* nobody goes on while others look */
        lost("%s", iso_error_message());
}

/* ---- saving ---- */

static void report_commit(int number)
{
    char text[32];
    run.committed = number;
    if (run.rank)
        return;
    FILE *out = fopen(run.commits, "a");
    if (!out || fprintf(out, "%d\n", number) < 0 || fclose(out))
        lost("%s: %s", run.commits, strerror(errno));
    snprintf(text, sizeof text, "committed %d", number);
    if (faults_note)
        faults_note(text);
}

static int last_commit(void)
{
    int number = 0;
    FILE *in = fopen(run.commits, "r");
    while (in && fscanf(in, "%d", &number) == 1)
        ;
    if (in)
        fclose(in);
    return number;
}

/* The message of what failed goes into `message`. Every fourth checkpoint is the best. */
static iso_status save(int number, char *message, size_t size)
{
    char path[4096];
    iso_file_spec contents = known_state_contents(&run.state, number);
    snprintf(path, sizeof path, "%s/%d.weights.h5", run.folder, number);
    run.number = number;
    known_state_fill(&run.state, number);
    iso_status status = iso_saver_save(run.saver, path, &contents, &run.state.shards, number % 4 == 1, NULL);
    known_state_fill(&run.state, -1); /* what is to be saved has been copied */
    snprintf(message, size, "%s", status == ISO_OK ? "" : iso_error_message());
    if (status == ISO_OK) {
        iso_saver_poll(run.saver);
        status = iso_saver_wait(run.saver);
        snprintf(message, size, "%s", iso_saver_message(run.saver)); /* where it is well: what was not */
    }
    if (status == ISO_OK)
        report_commit(number);
    return status;
}

static void save_well(void)
{
    char message[4096];
    if (save(run.number + 1, message, sizeof message))
        lost("%s", message);
    if (check_newest(run.folder, run.number) != run.number)
        lost("what is found is not what was saved last");
    check_tidy(0, KEEP + 1); /* one more may be the best */
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && atoi(value);
}

static bool is_mpio(void)
{
    return is_set("SAVES_MPIO");
}

static iso_status begin_saver(void)
{
    if (iso_saver_create(run.ctx, &run.saver, .keep = KEEP, .mpio = is_mpio(),
                         .no_latest = is_set("SAVES_NO_LATEST")))
        lost("%s", iso_error_message());
    return iso_saver_adopt(run.saver, run.pattern);
}

static void begin_saver_well(void)
{
    if (begin_saver())
        lost("%s", iso_error_message());
}

static void end_saver(void)
{
    iso_saver_destroy(run.saver);
    run.saver = NULL;
}

static void arm(const char *spec)
{
    run.fault = spec;
    if (faults_arm)
        faults_arm(spec);
}

/* ---- going on after a kill ---- */

static int go(const char *spec)
{
    run.committed = last_commit();
    run.number = check_newest(run.folder, run.committed);
    check_tidy(1, KEEP + 2); /* a kill between the commit and rotation leaves one too many */
    begin_saver_well();
    save_well();
    end_saver();

    arm(spec);
    check_newest(run.folder, run.committed);
    begin_saver_well();
    save_well();
    bool met = most(faults_hit && faults_hit());
    arm("");
    end_saver();
    return met ? 0 : NOT_MET;
}

/* ---- calls that fail ---- */

/* A try of something while faults are armed: its status, with the message where it failed. */
typedef iso_status (*attempt)(char *message, size_t size);

static iso_status attempt_save(char *message, size_t size)
{
    return save(run.number + 1, message, size);
}

/* No older checkpoint is taken where the newest cannot be read: that is an error. */
static iso_status attempt_find(char *message, size_t size)
{
    iso_saved_file *file = NULL;
    iso_text passed = {0};
    iso_status status = iso_checkpoint_find(run.ctx, run.folder, "{epoch}.weights.h5", &file, &passed);
    snprintf(message, size, "%s", status == ISO_OK ? iso_text_get(&passed) : iso_error_message());
    int number = file ? atoi(strrchr(iso_saved_file_path(file), '/') + 1) : 0;
    if (status == ISO_OK && number < run.committed)
        lost("%d is found instead of %d; passed over: %s", number, run.committed, message);
    iso_saved_file_close(file);
    iso_text_free(&passed);
    return status;
}

static iso_status attempt_adopt(char *message, size_t size)
{
    end_saver();
    iso_status status = begin_saver();
    snprintf(message, size, "%s", status == ISO_OK ? "" : iso_error_message());
    return status;
}

/* The system's own words for what was done to a call; "": it has none, or the call was gone on with. */
static const char *words_for(const char *how)
{
    return !strncmp(how, "ENOSPC", 6)  ? "No space left on device"
           : !strncmp(how, "EIO", 3)   ? "Input/output error"
           : !strncmp(how, "EROFS", 5) ? "Read-only file system"
                                       : "";
}

/* Whether it is a file that is written that loses its name, which another rank may notice. */
static bool takes_names(const char *how)
{
    return !strcmp(how, "vanishes") || !strcmp(how, "replaced");
}

/* An error must say where it was and what: the rank, the folder, the system's own words. */
static void check_message(const char *message, const char *rank, const char *how)
{
    char who[32];
    snprintf(who, sizeof who, takes_names(how) ? "rank " : "rank %s: ", rank);
    if (run.ranks > 1 && strcmp(rank, "all") && !strstr(message, who))
        lost("the message does not name the rank: %s", message);
    if (!strstr(message, run.folder))
        lost("the message does not name a file: %s", message);
    bool by_mpi = strstr(message, "MPI_ERR_READ_ONLY") && !strncmp(how, "EROFS", 5);
    if (!strcasestr(message, words_for(how)) && !by_mpi) /* MPI's words begin with a small letter */
        lost("the message does not tell the error: %s", message);
}

/* What was only interrupted, or done by half, is gone on with. */
static void check_failure(attempt what, const char *how, const char *message)
{
    static const char *const gone_on[] = {"write", "pwrite",    "read",     "pread",
                                          "fsync", "fallocate", "ftruncate"};
    const char *hit = faults_hit();
    bool half = !strcmp(how, "short"), interrupted = !strcmp(how, "EINTR");
    for (int i = 0; hit && what == attempt_save && !is_mpio() && (half || interrupted) && i < 7; i++)
        if (!strncmp(hit, gone_on[i], strlen(gone_on[i])))
            lost("'%s' was only interrupted, and the save failed: %s", hit, message);
}

/* Data that may not have reached the disk is not committed; what failed after the commit is told. */
static void check_success(attempt what, const char *how, const char *message)
{
    const char *hit = faults_hit();
    if (!hit || !strcmp(how, "short") || !strcmp(how, "EINTR") || takes_names(how) || what != attempt_save)
        return;
    bool beside = strstr(hit, "/latest") || strstr(hit, "/best") || strstr(hit, "/.latest") ||
                  strstr(hit, "/.best") || !strstr(hit, ".weights.h5");
    bool syncs = !strncmp(hit, "fsync", 5), writes = strstr(hit, "write") != NULL;
    if ((syncs || writes) && !beside)
        lost("'%s' failed, and success is reported", hit);
    bool changes = syncs || writes || !strncmp(hit, "rename", 6) || !strncmp(hit, "unlink", 6);
    if (changes && !strstr(hit, ".saving-") && !*message)
        lost("'%s' failed, and nobody is told", hit);
}

/* One fault. Returns whether it was met. */
static bool try_fault(attempt what, const char *rank, const char *how, int at)
{
    static char spec[128]; /* stays for messages of what comes after it */
    char message[4096];
    bool lasts = how[strlen(how) - 1] == '+';
    snprintf(spec, sizeof spec, "rank=%s at=%d%s how=%.*s%s", rank, at, lasts ? "+" : "",
             (int)strcspn(how, "+"), how, takes_names(how) ? " on=.saving-" : "");
    arm(spec);
    iso_status status = what(message, sizeof message);
    bool met = faults_calls() >= at && (!strcmp(rank, "all") || atoi(rank) == run.rank);
    if (status == ISO_OK)
        check_success(what, how, message);
    else if (run.ranks == 1 || strcmp(rank, "all")) /* else another rank's fault may be what is told */
        check_failure(what, how, message);
    if (faults_arm)
        faults_arm("");
    if (most((int)status) != -most(-(int)status))
        lost("ranks have different statuses; here: %d", (int)status);
    if (status != ISO_OK)
        check_message(message, rank, how);
    if (what == attempt_find && *message && !strstr(message, words_for(how)))
        lost("the reason for passing over does not tell the error: %s", message);
    if (what == attempt_adopt) { /* what could not be looked at is not counted: the next job does */
        end_saver();
        begin_saver_well();
    }
    check_newest(run.folder, run.committed);
    check_tidy(1, KEEP + 2);
    return most(met);
}

static int sweep_one(attempt what, const char *rank, const char *how)
{
    const char *every = getenv("SAVES_EVERY");
    int step = every ? atoi(every) : 1, at = 1;
    for (; try_fault(what, rank, how, at); at += step)
        save_well();
    save_well();
    return (at - 1) / step;
}

static int sweep(const char *rank, int hows, char **how)
{
    static const struct {
        const char *name;
        attempt what;
    } attempts[] = {{"save", attempt_save}, {"find", attempt_find}, {"adopt", attempt_adopt}};
    if (!faults_arm)
        lost("the injector is not there");
    run.committed = last_commit();
    run.number = check_newest(run.folder, run.committed);
    begin_saver_well();
    for (int i = 0; i < KEEP + 1; i++)
        save_well();
    for (int h = 0; h < hows; h++)
        for (int a = 0; a < (takes_names(how[h]) ? 1 : 3); a++) {
            int calls = sweep_one(attempts[a].what, rank, how[h]);
            if (!run.rank)
                printf("%s: %s at rank %s: %d calls\n", attempts[a].name, how[h], rank, calls);
        }
    end_saver();
    return 0;
}

/* ---- odd things ---- */

static void command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void command(const char *format, ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (run.rank == 0 && system(text)) /* NOLINT: a shell is wanted */
        lost("%s", text);
    if (iso_agree(run.ctx, ISO_OK))
        lost("%s", iso_error_message());
}

static void save_badly(const char *words)
{
    char message[4096];
    if (save(run.number + 1, message, sizeof message) == ISO_OK)
        lost("a save that cannot be is reported as done");
    if (!strstr(message, words) || !strstr(message, run.folder))
        lost("the message should tell '%s' and the folder: %s", words, message);
}

static void name_is_a_folder(void)
{
    run.fault = "the name is a folder's";
    command("mkdir -p '%s/%d.weights.h5/full'", run.folder, run.number + 1);
    save_badly("Is a directory");
    check_newest(run.folder, run.committed);
    check_tidy(0, KEEP + 2);
    command("rm -r '%s/%d.weights.h5'", run.folder, run.number);
    save_well();
}

static void rotated_by_others(void)
{
    run.fault = "somebody has removed all but the newest";
    command("cd '%s' && find . -name '*.weights.h5' ! -name '%d.weights.h5' -delete", run.folder, run.number);
    for (int i = 0; i < KEEP + 1; i++)
        save_well();
}

static void folder_vanishes(void)
{
    run.fault = "the folder is gone";
    command("rm -r '%s'", run.folder);
    run.committed = 0;
    save_well();
    for (int i = 0; i < KEEP + 1; i++)
        save_well();
}

static void folder_is_a_file(void)
{
    run.fault = "the folder is a file";
    command("mv '%s' '%s.aside' && touch '%s'", run.folder, run.folder, run.folder);
    save_badly("File exists");
    command("rm '%s' && mv '%s.aside' '%s'", run.folder, run.folder, run.folder);
    save_well();
}

static void marks_are_folders(void)
{
    char message[4096];
    run.fault = "the marks are folders";
    command("cd '%s' && rm -rf latest best && mkdir -p latest/full best/full", run.folder);
    for (int i = 0; i < 5; i++) { /* one is the best */
        save(run.number + 1, message, sizeof message);
        check_newest(run.folder, run.number); /* committed all the same */
    }
    command("rm -r '%s/latest' '%s/best'", run.folder, run.folder);
    save_well();
}

static void left_by_others(void)
{
    run.fault = "files of others lie there";
    command(
        "cd '%s' && echo x >%d.weights.h5 && echo x >987654321.weights.h5 && ln -s nowhere 987.weights.h5",
        run.folder, run.number + 1);
    check_newest(run.folder, run.committed);
    char message[4096];
    if (save(run.number + 1, message, sizeof message))
        lost("%s", message);
    check_newest(run.folder, run.number);
    command("rm '%s/987654321.weights.h5' '%s/987.weights.h5'", run.folder, run.folder);
    save_well();
}

static int odd(void)
{
    begin_saver_well();
    for (int i = 0; i < KEEP + 1; i++)
        save_well();
    name_is_a_folder();
    rotated_by_others();
    folder_is_a_file();
    marks_are_folders();
    left_by_others();
    folder_vanishes();
    end_saver();
    return 0;
}

/* ---- power cuts ---- */

/* Standard input: of each image its number and the checkpoint that had been reported before. */
static int images(const char *store)
{
    char image[32], folder[4096];
    int least, seen = 0;
    while (scanf("%31s %d", image, &least) == 2) {
        for (const char *variant = "abc"; *variant; variant++) {
            snprintf(folder, sizeof folder, "%s/images/%s-%c", store, image, *variant);
            check_newest(folder, least);
            seen++;
        }
    }
    printf("%d images\n", seen);
    return seen ? 0 : 1;
}

static int perform(int argc, char **argv)
{
    const char *what = argv[1];
    if (!strcmp(what, "images"))
        return images(argv[2]);
    if (argc < 4)
        return 2;
    run.folder = argv[2];
    run.commits = argv[3];
    snprintf(run.pattern, sizeof run.pattern, "%s/{epoch}.weights.h5", run.folder);
    if (!strcmp(what, "go") && argc == 5)
        return go(argv[4]);
    if (!strcmp(what, "sweep") && argc > 5)
        return sweep(argv[4], argc - 5, argv + 5);
    return !strcmp(what, "odd") ? odd() : 2;
}

int main(int argc, char **argv)
{
    run.fault = "";
    if (iso_init(&argc, &argv, &run.ctx) || argc < 3)
        return iso_finish(run.ctx, iso_error(ISO_INVALID, "usage: see the head of tests/faults/saves.c"));
    run.rank = iso_rank(run.ctx);
    run.ranks = iso_ranks(run.ctx);
    known_state_begin(&run.state, run.ctx);
    int code = perform(argc, argv);
    known_state_end(&run.state);
    int ended = iso_finish(run.ctx, ISO_OK);
    return ended ? ended : code;
}
