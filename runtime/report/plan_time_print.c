/* The time of a step for people. */
#include <stdio.h>

#include "runtime/report/plan_time.h"

static void print_line(const iso_report_time *t, const char *name, double seconds, const char *more,
                       iso_text *text)
{
    char scaled[32];
    iso_text_add(text, "  %-24s  %9s  %5.1f%%%s\n", name, iso_text_seconds(seconds, scaled, sizeof scaled),
                 100 * seconds / t->step, more);
}

static void print_op(const iso_report_time *t, const iso_report_op_time *op, iso_text *text)
{
    char scaled[32];
    const char *layer = op->origin.layer && op->origin.layer[0] ? op->origin.layer : NULL;
    iso_text_add(text, "  %9s  %5.1f%%  %5d  %s%s%s%s%s\n",
                 iso_text_seconds(op->seconds, scaled, sizeof scaled), 100 * op->seconds / t->step, op->count,
                 op->type, layer ? " of " : "", layer ? layer : "", op->origin.backward ? ", backward" : "",
                 op->measured ? "" : " (estimated)");
}

void iso_report_time_print(const iso_plan_report *report, iso_text *text)
{
    const iso_report_time *t = report->time;
    char step[32], hidden[64], scaled[32];
    double rate = (double)report->rows / t->step;
    iso_text_add(text,
                 "\nstep %s, %.*f rows a second; %.0f%% of computation and update were measured, the rest is "
                 "estimated\n  kernels: %s",
                 iso_text_seconds(t->step, step, sizeof step), rate < 10 ? 3 : 0, rate, 100 * t->measured,
                 t->machine);
    if (t->processor[0])
        iso_text_add(text, "; another processor: this one is '%s'", t->processor);
    iso_text_add(text, "\n");
    if (t->backend[0])
        iso_text_add(text, "  of another backend: '%s'; this plan is for '%s'\n", t->measured_backend,
                     t->backend);
    if (t->build[0])
        iso_text_add(text, "  by another build of Isogrid: %s; this one is %s\n", t->measured_build,
                     t->build);
    if (t->network[0])
        iso_text_add(text, "  network: %s\n", t->network);
    print_line(t, "computation", t->computation, "", text);
    print_line(t, "update", t->update, "", text);
    print_line(t, "exchanges within a host", t->intra_host, "", text);
    snprintf(hidden, sizeof hidden, "; and %s hidden by work",
             iso_text_seconds(t->hidden, scaled, sizeof scaled));
    print_line(t, "waits for other hosts", t->exposed, t->network[0] ? hidden : "", text);
    iso_text_add(text, "\n  %9s  %6s  %5s  largest ops\n", "a step", "", "times");
    for (int i = 0; i < t->n_ops; i++)
        print_op(t, &t->ops[i], text);
}
