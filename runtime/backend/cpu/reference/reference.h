/* Declarations that the parts of the reference backend share. */
#ifndef ISO_BACKEND_CPU_REFERENCE_REFERENCE_H
#define ISO_BACKEND_CPU_REFERENCE_REFERENCE_H

#include "runtime/backend/backend.h"
#include "runtime/graph/ops/attrs.h"

/* The update rule of an optimizer ("adam", ...) over ISO_F32 or ISO_F64; NULL if there is none. */
iso_rule_run iso_reference_optimizer(const char *rule, iso_dtype dtype);

/* A function of unary.h without a number, and its slope from what its gradient takes: y or x. */
double iso_reference_unary(iso_unary_kind kind, double x);
double iso_reference_slope(iso_unary_kind kind, double s);

#endif
