/* How long a run's first step and its epochs take, for tests/bench. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch/train_impl.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"

typedef struct timings {
    iso_context *ctx;
    const char *path;
    FILE *file;
    double reading, first_step, epoch_begin;
    long long steps; /* of this epoch, so far */
} timings;

/* Seconds since this process was started: field 22 of /proc/self/stat, in ticks since the machine's start.
 * -1: not known. */
static double process_age(void)
{
    char line[1024];
    unsigned long long start = 0;
    struct timespec now;
    FILE *file = fopen("/proc/self/stat", "r");
    if (!file)
        return -1;
    const char *after = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    if (!after ||
        sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &start) != 1)
        return -1;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)start / (double)sysconf(_SC_CLK_TCK);
}

static iso_status train_begin(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    if (!iso_is_chief(t->ctx))
        return ISO_OK;
    t->file = fopen(t->path, "w");
    return t->file ? ISO_OK : iso_error(ISO_IO, "--timings '%s': %s", t->path, strerror(errno));
}

static iso_status epoch_begin(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    t->epoch_begin = iso_clock();
    t->steps = 0;
    return ISO_OK;
}

static iso_status batch_end(void *user, iso_fit_state *state)
{
    timings *t = user;
    (void)state;
    t->steps++;
    if (!t->first_step)
        t->first_step = process_age() - t->reading;
    return ISO_OK;
}

static iso_status epoch_end(void *user, iso_fit_state *state)
{
    timings *t = user;
    if (!t->file)
        return ISO_OK;
    fprintf(t->file, "{\"epoch\": %d, \"seconds\": %.6f, \"steps\": %lld", state->epoch + 1,
            iso_clock() - t->epoch_begin, t->steps);
    if (state->epoch == 0)
        fprintf(t->file, ", \"first_step_seconds\": %.3f, \"reading_seconds\": %.3f", t->first_step,
                t->reading);
    fprintf(t->file, "}\n");
    if (fflush(t->file) || ferror(t->file))
        return iso_error(ISO_IO, "--timings '%s': %s", t->path, strerror(errno));
    return ISO_OK;
}

static void destroy(void *user)
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
    return iso_callback_create(.train_begin = train_begin, .epoch_begin = epoch_begin, .epoch_end = epoch_end,
                               .batch_end = batch_end, .alike = true, .user = t, .destroy = destroy);
}
