/* Training: the public headers of this folder. */
#ifndef ISO_TRAIN_TRAIN_H
#define ISO_TRAIN_TRAIN_H

#include "runtime/graph/optimizer.h"
#include "runtime/train/callbacks.h"
#include "runtime/train/checkpoints.h"
#include "runtime/train/follow.h"
#include "runtime/train/lora.h"
#include "runtime/train/losses.h"
#include "runtime/train/model.h"
#include "runtime/train/progress.h"

#endif
