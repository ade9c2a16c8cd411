/* The layers of Keras 3: each makes its variables and ops in the graph of its input.
 *
 * Every layer is a macro over a function that takes its options as a struct: x and required options come
 * first, without names; all others are optional, and zero means Keras's default. Names: `.name`, else Keras's
 * automatic one ("dense", "dense_1", counted per graph). A layer named d1 has the variables d1/kernel,
 * d1/bias, and its result is the tensor d1/output. Shapes are global; a wrong one is an error in the graph
 * that names the layer and the shapes. Members that end in _layout set layouts ("-, model"), which take
 * precedence over a layout map. */
#ifndef ISO_MODELS_LAYERS_H
#define ISO_MODELS_LAYERS_H

#include "models/layers/activation.h"
#include "models/layers/attention.h"
#include "models/layers/augmentation.h"
#include "models/layers/conv_lstm.h"
#include "models/layers/core.h"
#include "models/layers/experts.h"
#include "models/layers/merging.h"
#include "models/layers/normalization.h"
#include "models/layers/recurrent.h"
#include "models/layers/regularization.h"
#include "models/layers/reshaping.h"
#include "models/layers/sequential.h"
#include "models/layers/windows.h"
#include "models/layers/wrappers.h"

#endif
