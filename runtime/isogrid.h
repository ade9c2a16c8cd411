/* Isogrid: the header for programs. Functions that take an MPI_Comm are in isogrid_mpi.h.
 *
 * Ownership. The object that a function "..._create" makes is freed by "..._destroy" of the same name. Arguments
 * are lent for the duration of the call: texts and arrays are copied if they are needed later, unless the comment
 * of the function or of the option says that it keeps or takes over the argument. */
#ifndef ISOGRID_H
#define ISOGRID_H

#include "models/huggingface/huggingface.h"
#include "models/keras/keras.h"
#include "models/layers.h"
#include "models/models.h"
#include "runtime/base/build.h"
#include "runtime/base/free.h"
#include "runtime/base/options.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/data/data.h"
#include "runtime/data/tokenizer/tokenizer.h"
#include "runtime/exec/auto_sharding/suggest.h"
#include "runtime/exec/function/function.h"
#include "runtime/exec/value/value.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/optimizer.h"
#include "runtime/report/visualize.h"
#include "runtime/session/session.h"
#include "runtime/spmd/spmd.h"
#include "runtime/train/train.h"

#endif
