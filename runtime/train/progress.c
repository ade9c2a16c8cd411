/* Progress lines in Keras's form: a bar that is redrawn on a terminal, elsewhere a line an epoch. */
#include "runtime/train/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/memory.h"
#include "runtime/base/terminal.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"

enum { BAR_WIDTH = 20, NAME_BYTES = 64 };
static const double redraw_seconds = 0.1;

struct iso_progress {
    bool prints, bar, latest;
    int64_t steps, done; /* steps 0: not known */
    int64_t earlier;     /* of those that are done: by another run */
    double begin, drawn; /* seconds of the monotonic clock */
    int width;           /* characters of the last drawing */
    /* for iso_progress_update */
    int values;
    char name[ISO_MAX_PROGRESS][NAME_BYTES];
    const char *names[ISO_MAX_PROGRESS];
    double sum[ISO_MAX_PROGRESS];
    double shown[ISO_MAX_PROGRESS];
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

iso_status iso_progress_create_with(iso_context *ctx, iso_progress **progress,
                                    const iso_progress_options *given, size_t size)
{
    iso_progress_options options = {0};
    memcpy(&options, given, size < sizeof options ? size : sizeof options);
    iso_progress *made = iso_new(sizeof *made);
    if (!made)
        return iso_error(ISO_NO_MEMORY, "no memory for a progress line");
    int verbose = (int)iso_option_number(options.verbose, 1);
    made->prints = verbose > 0 && (!ctx || iso_is_chief(ctx));
    made->bar = made->prints && verbose == 1 && iso_is_terminal(stdout);
    made->latest = options.latest;
    while (made->values < ISO_MAX_PROGRESS && options.names[made->values]) {
        int i = made->values++;
        snprintf(made->name[i], NAME_BYTES, "%s", options.names[i]);
        made->names[i] = made->name[i];
    }
    iso_progress_begin(made, NULL, options.steps, 0);
    *progress = made;
    return ISO_OK;
}

void iso_progress_destroy(iso_progress *progress)
{
    iso_free(progress);
}

void iso_progress_begin(iso_progress *progress, const char *title, int64_t steps, int64_t done)
{
    if (progress->prints && title) {
        printf("%s\n", title);
        fflush(stdout);
    }
    progress->steps = steps;
    progress->done = progress->earlier = done;
    progress->width = 0;
    progress->begin = now();
    progress->drawn = 0;
    memset(progress->sum, 0, sizeof progress->sum);
}

bool iso_progress_step(iso_progress *progress)
{
    progress->done++;
    return progress->bar && now() - progress->drawn >= redraw_seconds;
}

/* "12s 13ms/step", with "- " between where it is a line of its own. */
static int time_text(const iso_progress *progress, char *text, size_t size)
{
    double seconds = now() - progress->begin;
    int64_t done = progress->done - progress->earlier;
    double each = done ? seconds / (double)done : 0;
    const char *unit = each >= 1 || each == 0 ? "s" : each >= 1e-3 ? "ms" : "us";
    double scaled = each >= 1 || each == 0 ? each : each >= 1e-3 ? each * 1e3 : each * 1e6;
    return snprintf(text, size, "%s%.0fs %s%.0f%s/step", progress->bar ? "" : "- ", seconds,
                    progress->bar ? "" : "- ", scaled, unit);
}

/* Metrics in the order in which Keras shows them: sorted, those of the validation behind. */
static bool comes_before(const char *a, const char *b)
{
    bool a_last = strncmp(a, "val_", 4) == 0, b_last = strncmp(b, "val_", 4) == 0;
    return a_last != b_last ? b_last : strcmp(a, b) < 0;
}

static size_t values_text(const iso_logs *logs, char *text, size_t size)
{
    size_t at = 0;
    const char *last = NULL;
    text[0] = 0;
    for (int printed = 0; printed < logs->count && at < size; printed++) {
        int next = -1;
        for (int i = 0; i < logs->count; i++) {
            bool left = !last || comes_before(last, logs->name[i]);
            if (left && (next < 0 || comes_before(logs->name[i], logs->name[next])))
                next = i;
        }
        if (next < 0)
            break;
        last = logs->name[next];
        double value = logs->value[next];
        const char *format = fabs(value) > 1e-3 || value == 0 ? " - %s: %.4f" : " - %s: %.4e";
        at += (size_t)snprintf(text + at, size - at, format, last, value);
    }
    return at;
}

static void bar_text(const iso_progress *progress, char *text)
{
    int64_t full = progress->steps > 0 ? BAR_WIDTH * progress->done / progress->steps : 0;
    text[0] = 0;
    for (int i = 0; i < BAR_WIDTH; i++)
        strcat(text, i < full ? "━" : "─");
}

/* "12/938 <bar> 1s 12ms/step - loss: 0.6034" */
static void print_line(iso_progress *progress, const iso_logs *logs)
{
    char steps[64], bar[BAR_WIDTH * 4 + 1] = "", time[64], values[2048];
    time_text(progress, time, sizeof time);
    values_text(logs, values, sizeof values);
    if (progress->steps > 0)
        snprintf(steps, sizeof steps, "%lld/%lld", (long long)progress->done, (long long)progress->steps);
    else
        snprintf(steps, sizeof steps, "%lld/Unknown", (long long)progress->done);
    if (!progress->bar) {
        printf("%s %s%s\n", steps, time, values);
        return;
    }
    bar_text(progress, bar);
    int width = (int)(strlen(steps) + strlen(time) + strlen(values)) + BAR_WIDTH + 2;
    printf("\r%s %s %s%s%*s", steps, bar, time, values, progress->width > width ? progress->width - width : 0,
           "");
    progress->width = width;
}

void iso_progress_draw(iso_progress *progress, const iso_logs *logs)
{
    if (!progress->bar)
        return;
    print_line(progress, logs);
    fflush(stdout);
    progress->drawn = now();
}

void iso_progress_break(iso_progress *progress)
{
    if (progress->width > 0)
        printf("\n");
    progress->width = 0;
}

void iso_progress_end(iso_progress *progress, const iso_logs *logs)
{
    if (!progress->prints)
        return;
    print_line(progress, logs);
    if (progress->bar)
        printf("\n");
    fflush(stdout);
}

/* ---- for one's own loops ---- */

static iso_logs shown(iso_progress *progress)
{
    for (int i = 0; i < progress->values; i++)
        progress->shown[i] = progress->latest || !progress->done ? progress->sum[i]
                                                                 : progress->sum[i] / (double)progress->done;
    return (iso_logs){.count = progress->values, .name = progress->names, .value = progress->shown};
}

void iso_progress_update(iso_progress *progress, const double *values)
{
    for (int i = 0; i < progress->values; i++)
        progress->sum[i] = progress->latest ? values[i] : progress->sum[i] + values[i];
    if (iso_progress_step(progress)) {
        iso_logs logs = shown(progress);
        iso_progress_draw(progress, &logs);
    }
}

void iso_progress_finish(iso_progress *progress)
{
    iso_logs logs = shown(progress);
    iso_progress_end(progress, &logs);
    iso_progress_begin(progress, NULL, progress->steps, 0);
}
