/* Reports on plans, for people and programs. Reads plans and changes nothing. */
#ifndef ISO_REPORT_REPORT_H
#define ISO_REPORT_REPORT_H

#include "runtime/plan/plan.h"
#include "runtime/report/plan_report.h"

/* Creates the report of a plan. Its texts are lent from the graph and the layout map. Freed with
 * iso_plan_report_destroy. Local. */
iso_status iso_plan_report_create(const iso_plan *plan, iso_plan_report **report);

#endif
