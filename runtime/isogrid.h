/* Isogrid: one header for those who use it. What takes an MPI_Comm is in isogrid_mpi.h.
 *
 * Ownership. What a function "..._create" makes, "..._destroy" of the same name frees. Arguments are lent for
 * the time of the call: texts and arrays are copied where they are needed later, unless the comment of the
 * function or of the option says that it keeps or takes over the argument. */
#ifndef ISOGRID_H
#define ISOGRID_H

#include "models/keras/keras.h"
#include "models/layers.h"
#include "models/models.h"
#include "runtime/base/build.h"
#include "runtime/base/free.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/data/data.h"
#include "runtime/exec/function.h"
#include "runtime/exec/suggest.h"
#include "runtime/exec/value.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/optimizer.h"
#include "runtime/report/visualize.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/train.h"

#endif
