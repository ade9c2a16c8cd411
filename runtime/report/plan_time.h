/* The time of a step, from measured times of its ops and the latency and bandwidth of exchanges.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_REPORT_PLAN_TIME_H
#define ISO_REPORT_PLAN_TIME_H

#include "runtime/report/calibration.h"
#include "runtime/report/plan_report.h"

struct iso_plan;

typedef struct iso_time_model {
    const iso_calibration *calibration;
    iso_network network;                  /* between hosts; not known: the calibration's own */
    char processor[ISO_CALIBRATION_TEXT]; /* of this machine; "": it is not compared with the calibration's */
    char backend[ISO_CALIBRATION_TEXT];   /* of the plan, its description; "": as processor */
} iso_time_model;

/* The calibration was measured on another processor than this machine's. */
bool iso_time_model_is_foreign(const iso_time_model *model);
/* The calibration was measured with another backend (kernels, libraries) than the plan's. */
bool iso_time_model_has_other_backend(const iso_time_model *model);
/* The calibration was measured by another build of Isogrid, which it names. */
bool iso_time_model_has_other_build(const iso_time_model *model);

/* ISO_INVALID: the plan is for several hosts, and no network is known. The caller frees *time with iso_free. */
iso_status iso_plan_time_create(const struct iso_plan *plan, const iso_plan_report *report,
                                const iso_time_model *model, iso_report_time **time);
/* Adds the time of a report to a text. */
void iso_report_time_print(const iso_plan_report *report, iso_text *text);

/* ---- the simulation ---- */

typedef enum iso_time_kind {
    ISO_TIME_COMPUTE, /* the slots compute */
    ISO_TIME_UPDATE,  /* the slots update weights */
    ISO_TIME_HERE,    /* the slots of a host exchange */
    ISO_TIME_START,   /* messages of a transfer are sent */
    ISO_TIME_WAIT,    /* the slots wait until those of a transfer have arrived */
} iso_time_kind;

typedef struct iso_time_event {
    iso_time_kind kind;
    double seconds; /* of WORK, UPDATE, HERE */
    int transfer;   /* of START, WAIT: its number */
    double bytes;   /* START: that the host receives */
    int messages;   /* START: of which the host sends and receives so many; 0: there are none */
} iso_time_event;

/* Runs two steps and gives the times of the second. All hosts do the same at the same time. Slots send each
 * message in `network->message`; then a transfer takes the host's link for bytes / bandwidth, after all that began
 * before it, and arrives `latency` later. While slots do something else than waiting, the link carries at most
 * `window` bytes until it ends, and each takes `byte` of their time. transfers: their number. Sets step,
 * computation, update, intra_host, exposed, in_flight and hidden. ISO_NO_MEMORY. */
iso_status iso_time_simulate(const iso_time_event *events, int count, int transfers,
                             const iso_network *network, iso_report_time *time);

/* The seconds of an op. One that was not measured: those of the measured op of the same type whose key differs in
 * the fewest words and extents, then the nearest by operations and bytes, in proportion; if there is none, from the
 * rates of the machine. *measured: it was. */
double iso_time_of_op(const iso_calibration *calibration, const iso_calibrated_op *op, bool *measured);

#endif
