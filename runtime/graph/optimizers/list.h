/* Every optimizer, one per line: OPTIMIZER(name) stands for the descriptor iso_optimizer_name, whose name is
 * "name". A plain #include declares them all; with OPTIMIZER defined, it is the list itself. */
#ifndef OPTIMIZER
#include "runtime/graph/optimizers/rule.h"
#define OPTIMIZER(name) extern const iso_optimizer_rule iso_optimizer_##name;
#endif
// clang-format off
OPTIMIZER(sgd)
OPTIMIZER(rmsprop)
OPTIMIZER(adam)
OPTIMIZER(adamw)
OPTIMIZER(adagrad)
OPTIMIZER(nadam)
OPTIMIZER(lion)
OPTIMIZER(adamax)
OPTIMIZER(adadelta)
OPTIMIZER(ftrl)
OPTIMIZER(lamb)
OPTIMIZER(adafactor)
OPTIMIZER(muon)
// clang-format on
#undef OPTIMIZER
