/* The times of a run's first step and of its epochs, for tests/bench. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch/train_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/session/roles.h"

typedef struct timings {
    iso_context *ctx;
    const char *path;
    FILE *file;
    double reading, first_step, epoch_begin;
    long long steps; /* of this epoch, so far */
} timings;

/* A process as /proc describes it. */
typedef struct process {
    char name[64];
    int parent;
    unsigned long long start; /* in ticks since the machine's start */
} process;

/* Fields 2, 4 and 22 of /proc/PID/stat. */
static bool look_at(int pid, process *p)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char *name = fgets(line, sizeof line, file) ? strchr(line, '(') : NULL,
         *after = name ? strrchr(name, ')') : NULL;
    fclose(file);
    if (!after ||
        sscanf(after, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &p->parent, &p->start) != 2)
        return false;
    *after = 0;
    snprintf(p->name, sizeof p->name, "%s", name + 1);
    return true;
}

static bool is_launcher(const char *name)
{
    static const char *const names[] = {"mpirun",  "mpiexec", "orterun",         "orted",
                                        "prterun", "prted",   "hydra_pmi_proxy", "slurmstepd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Seconds since this process, or the launcher of it on this host, was started. -1: unknown. */
static double seconds_since_launch(void)
{
    process self, parent;
    struct timespec now;
    if (!look_at(getpid(), &self))
        return -1;
    while (look_at(self.parent, &parent) && is_launcher(parent.name))
        self = parent;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)self.start / (double)sysconf(_SC_CLK_TCK);
}

static iso_status timings_train_begin(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    if (!iso_is_chief(t->ctx))
        return ISO_OK;
    char *path;
    iso_status status = iso_role_path(t->ctx, iso_role(t->ctx), t->path, &path);
    if (status != ISO_OK)
        return status;
    t->file = fopen(path, "w");
    iso_free(path);
    return t->file ? ISO_OK : iso_error(ISO_INVALID, "--timings '%s': %s", t->path, strerror(errno));
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    t->epoch_begin = iso_clock();
    t->steps = 0;
    return ISO_OK;
}

static iso_status timings_batch_end(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    t->steps++;
    if (!t->first_step)
        t->first_step = seconds_since_launch();
    return ISO_OK;
}

static iso_status timings_epoch_end(void *user, iso_fit_state *state)
{
    timings *t = user;
    if (!t->file)
        return ISO_OK;
    json_t *line = json_pack("{s:i, s:f, s:I}", "epoch", state->epoch + 1, "seconds",
                             iso_clock() - t->epoch_begin, "steps", (json_int_t)t->steps);
    if (state->epoch == 0) {
        json_object_set_new(line, "first_step_seconds", json_real(t->first_step));
        json_object_set_new(line, "reading_seconds", json_real(t->reading));
    }
    bool failed = json_dumpf(line, t->file, 0) || fputc('\n', t->file) < 0 || fflush(t->file);
    json_decref(line);
    if (failed)
        return iso_error(ISO_IO, "--timings '%s': %s", t->path, strerror(errno));
    return ISO_OK;
}

static void timings_destroy(void *user)
{
    timings *t = user;
    if (t->file)
        fclose(t->file);
    iso_free(t);
}

iso_callback *iso_timings_file(iso_context *ctx, const char *path, double reading)
{
    timings *t = iso_new(sizeof *t);
    if (t)
        *t = (timings){.ctx = ctx, .path = path, .reading = reading};
    return iso_callback_create(.train_begin = timings_train_begin, .epoch_begin = epoch_begin,
                               .epoch_end = timings_epoch_end, .batch_end = timings_batch_end,
                               .collective = true, .async = true, .user = t, .destroy = timings_destroy);
}
