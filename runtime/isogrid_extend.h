/* Isogrid for programs that extend it: ops with their kernels (op.h describes their registration), layers, losses
 * and callbacks that keep state in checkpoints; plans and files as data. */
#ifndef ISOGRID_EXTEND_H
#define ISOGRID_EXTEND_H

#include "runtime/backend/register.h"
#include "runtime/base/log.h"
#include "runtime/base/shards.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/exec/function/inspect.h"
#include "runtime/graph/layer.h"
#include "runtime/graph/op.h"
#include "runtime/isogrid.h"
#include "runtime/report/plan_report.h"

#endif
