/* Progress lines in Keras's form: on a terminal a bar that is redrawn, otherwise one line an epoch. */
#include "runtime/train/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/clock.h"
#include "runtime/base/memory.h"
#include "runtime/base/terminal.h"
#include "runtime/base/thread_modes.h"
#include "runtime/session/session.h"
#include "runtime/train/callbacks_impl.h"

enum { BAR_WIDTH = 20, NAME_BYTES = 64 };
static const double redraw_seconds = 0.1;

struct iso_progress {
    bool prints, bar, colored, latest;
    double (*clock)(void);      /* seconds */
    int64_t steps, done;        /* steps 0: unknown */
    int64_t earlier;            /* of `done`: made by another run */
    double begin, first, drawn; /* first: the end of the first step */
    int width;                  /* characters of the last drawing */
    /* for iso_progress_update */
    int n_values;
    char name[ISO_MAX_PROGRESS][NAME_BYTES];
    const char *names[ISO_MAX_PROGRESS];
    double sum[ISO_MAX_PROGRESS];
    double shown[ISO_MAX_PROGRESS];
};

iso_status iso_progress_create_with(iso_context *ctx, iso_progress **progress,
                                    const iso_progress_options *given, size_t size)
{
    ISO_DEFAULT_MODES();
    ISO_NEED(progress);
    iso_progress_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    iso_progress *made = iso_new(sizeof *made);
    if (!made)
        return iso_no_memory("a progress line");
    int verbose = (int)iso_option_number(options.verbose, iso_verbose(ctx));
    made->prints = verbose > 0 && iso_is_chief(ctx);
    made->bar = made->prints && verbose == 1 && iso_is_terminal(stdout);
    made->colored = made->bar && iso_wants_colors(stdout);
    made->clock = iso_clock;
    made->latest = options.latest;
    while (made->n_values < ISO_MAX_PROGRESS && options.names[made->n_values]) {
        int i = made->n_values++;
        snprintf(made->name[i], NAME_BYTES, "%s", options.names[i]);
        made->names[i] = made->name[i];
    }
    iso_progress_begin(made, NULL, options.steps, 0);
    *progress = made;
    return ISO_OK;
}

void iso_progress_set_clock(iso_progress *progress, double (*clock)(void))
{
    progress->clock = clock;
}

/* After a bar that was not ended, an error begins on a line of its own. */
void iso_progress_destroy(iso_progress *progress)
{
    if (progress && progress->width > 0) {
        iso_progress_break(progress);
        fflush(stdout);
    }
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
    progress->begin = progress->first = progress->clock();
    progress->drawn = -1;
    memset(progress->sum, 0, sizeof progress->sum);
}

bool iso_progress_step(iso_progress *progress)
{
    if (progress->done++ == progress->earlier)
        progress->first = progress->clock();
    return progress->bar && progress->clock() - progress->drawn >= redraw_seconds;
}

/* ---- times ---- */

/* Seconds per step. As in Keras, a bar leaves out the first step, which is slow, once there are others. */
static double seconds_each(const iso_progress *progress, double time)
{
    int64_t done = progress->done - progress->earlier;
    if (done == 0)
        return 0;
    if (done == 1 || !progress->bar)
        return (time - progress->begin) / (double)done;
    return (time - progress->first) / (double)(done - 1);
}

/* "13ms/step" */
static void each_text(double seconds, char *text, size_t size)
{
    if (seconds >= 1 || seconds == 0)
        snprintf(text, size, "%.0fs/step", seconds);
    else if (seconds >= 1e-3)
        snprintf(text, size, "%.0fms/step", seconds * 1e3);
    else
        snprintf(text, size, "%.0fus/step", seconds * 1e6);
}

/* The remaining time: "1:02:03", "2:03" or "3s". */
static void left_text(double seconds, char *text, size_t size)
{
    int64_t whole = seconds > 0 ? (int64_t)fmin(seconds, 1e15) : 0;
    if (seconds > 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", (long long)(whole / 3600), (long long)(whole % 3600 / 60),
                 (long long)(whole % 60));
    else if (seconds > 60)
        snprintf(text, size, "%lld:%02lld", (long long)(whole / 60), (long long)(whole % 60));
    else
        snprintf(text, size, "%llds", (long long)whole);
}

/* ---- values ---- */

/* Keras sorts the values of training, then those of validation; values that callbacks have added come
 * last. */
static bool comes_before(const iso_logs *logs, int own, int a, int b)
{
    bool a_last = strncmp(logs->name[a], "val_", 4) == 0, b_last = strncmp(logs->name[b], "val_", 4) == 0;
    if (a >= own || b >= own)
        return a < b;
    return a_last != b_last ? b_last : strcmp(logs->name[a], logs->name[b]) < 0;
}

static void values_text(const iso_logs *logs, int own, char *text, size_t size)
{
    size_t at = 0;
    int last = -1;
    text[0] = 0;
    for (int printed = 0; printed < logs->count && at < size; printed++) {
        int next = -1;
        for (int i = 0; i < logs->count; i++)
            if ((last < 0 || comes_before(logs, own, last, i)) &&
                (next < 0 || comes_before(logs, own, i, next)))
                next = i;
        if (next < 0)
            break;
        last = next;
        double value = logs->value[next];
        at += (size_t)snprintf(text + at, size - at, fabs(value) > 1e-3 ? " - %s: %.4f" : " - %s: %.4e",
                               logs->name[next], value);
    }
}

/* ---- lines ---- */

/* The parts of a line. */
typedef struct line {
    char steps[64], time[64], values[8192];
    int bar, full; /* characters of the bar; 0: no bar */
    int width;     /* characters of the line */
} line;

static int digits_of(int64_t number)
{
    return snprintf(NULL, 0, "%lld", (long long)number);
}

/* Characters of UTF-8, not bytes. */
static int characters(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static void measure(line *l)
{
    l->width =
        characters(l->steps) + 1 + (l->bar ? l->bar + 1 : 0) + characters(l->time) + characters(l->values);
}

static void progress_fill(const iso_progress *progress, const iso_logs *logs, int own, bool last, line *l)
{
    double time = progress->clock(), each = seconds_each(progress, time);
    char left[40], step[40];
    int64_t steps = progress->steps > 0 ? progress->steps : last ? progress->done : 0;
    each_text(each, step, sizeof step);
    values_text(logs, own, l->values, sizeof l->values);
    if (steps > 0)
        snprintf(l->steps, sizeof l->steps, "%*lld/%lld", digits_of(steps), (long long)progress->done,
                 (long long)steps);
    else
        snprintf(l->steps, sizeof l->steps, "%7lld/Unknown", (long long)progress->done);
    if (steps > 0 && !last)
        left_text(each * (double)(steps - progress->done), left, sizeof left);
    else
        snprintf(left, sizeof left, "%.0fs", time - progress->begin);
    snprintf(l->time, sizeof l->time, progress->bar ? "%s %s" : "- %s - %s", left, step);
    l->bar = progress->bar && steps > 0 ? BAR_WIDTH : 0;
    l->full = l->bar ? (int)(BAR_WIDTH * progress->done / steps) : 0;
    measure(l);
}

/* Removes the last value; false if there is none. */
static bool drop_value(line *l)
{
    char *last = NULL;
    for (char *at = strstr(l->values, " - "); at; at = strstr(at + 1, " - "))
        last = at;
    if (last)
        *last = 0;
    return last != NULL;
}

static void progress_cut(char *text, int bytes)
{
    if ((int)strlen(text) > bytes)
        text[bytes > 0 ? bytes : 0] = 0;
}

/* A redrawn line must fit on one terminal line: first the bar gets shorter, then fewer values are shown, then
 * the numbers, which are ASCII, are cut. */
static void fit_into(line *l, int columns)
{
    enum { SHORTEST_BAR = 5 };
    int room = columns - 1, most = l->bar;
    if (columns <= 0 || l->width <= room)
        return;
    l->bar -= l->width - room;
    l->bar = l->bar < SHORTEST_BAR ? 0 : l->bar;
    l->full = most ? l->full * l->bar / most : 0;
    do
        measure(l);
    while (l->width > room && drop_value(l));
    if (l->width > room) {
        progress_cut(l->steps, room - 1);
        progress_cut(l->time, room - 1 - (int)strlen(l->steps));
        measure(l);
    }
}

/* Keras's colours: the finished part is green, the rest white; numbers are bold. */
typedef struct colors {
    const char *bold, *green, *white, *end;
} colors;

static void print_bar(const line *l, const colors *c)
{
    bool colored = c->end[0];
    if (!l->bar)
        return;
    if (l->full)
        printf("%s", c->green);
    for (int i = 0; i < l->full; i++)
        printf("━");
    printf("%s%s", l->full ? c->end : "", c->white);
    for (int i = l->full; i < l->bar; i++)
        printf(colored ? "━" : "─");
    printf("%s ", c->end);
}

/* "12/938 <bar> 1s 12ms/step - loss: 0.6034" */
static void progress_draw(iso_progress *progress, const iso_logs *logs, int own, bool last)
{
    static const colors plain = {"", "", "", ""}, bright = {"\033[1m", "\033[32m", "\033[37m", "\033[0m"};
    const colors *c = progress->colored ? &bright : &plain;
    line l;
    progress_fill(progress, logs, own, last, &l);
    if (!progress->bar) {
        printf("%s %s%s\n", l.steps, l.time, l.values);
        return;
    }
    if (!last)
        fit_into(&l, iso_terminal_width(stdout));
    int before = (int)strcspn(l.time, " ");
    bool known = progress->steps > 0 || last;
    printf("\r%s%s%s ", known ? c->bold : "", l.steps, known ? c->end : "");
    print_bar(&l, c);
    printf("%s%.*s%s%s%s", c->bold, before, l.time, c->end, l.time + before, l.values);
    printf("%*s", progress->width > l.width ? progress->width - l.width : 0, "");
    progress->width = l.width;
}

void iso_progress_draw(iso_progress *progress, const iso_logs *logs)
{
    if (!progress->bar)
        return;
    progress_draw(progress, logs, progress->n_values ? 0 : logs->count, false);
    fflush(stdout);
    progress->drawn = progress->clock();
}

void iso_progress_break(iso_progress *progress)
{
    if (progress->width > 0)
        printf("\n");
    progress->width = 0;
}

void iso_progress_end(iso_progress *progress, const iso_logs *logs, int own)
{
    if (!progress->prints)
        return;
    progress_draw(progress, logs, progress->n_values ? 0 : own, true);
    if (progress->bar)
        printf("\n");
    fflush(stdout);
    progress->width = 0;
}

/* ---- for custom loops ---- */

static iso_logs shown(iso_progress *progress)
{
    for (int i = 0; i < progress->n_values; i++)
        progress->shown[i] = progress->latest || !progress->done ? progress->sum[i]
                                                                 : progress->sum[i] / (double)progress->done;
    return (iso_logs){.count = progress->n_values, .name = progress->names, .value = progress->shown};
}

void iso_progress_update(iso_progress *progress, const double *values)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(progress, values))
        return;
    for (int i = 0; i < progress->n_values; i++)
        progress->sum[i] = progress->latest ? values[i] : progress->sum[i] + values[i];
    if (iso_progress_step(progress)) {
        iso_logs logs = shown(progress);
        iso_progress_draw(progress, &logs);
    }
}

void iso_progress_finish(iso_progress *progress)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(progress))
        return;
    iso_logs logs = shown(progress);
    iso_progress_end(progress, &logs, 0);
    iso_progress_begin(progress, NULL, progress->steps, 0);
}
