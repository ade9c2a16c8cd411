"""Writes optimizers_keras.h: two variables after each of 6 steps of Keras's optimizers, given their gradients.

Run with Keras 3.15.1 (any backend) from the repository's root: python tests/graph/optimizers_keras.py
"""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import keras
import numpy as np

STEPS = 6
SIZES = (4, 3)
O = keras.optimizers
S = O.schedules

# name, C initializer of iso_optimizer, the optimizer of Keras
CASES = [
    ("sgd", '.rule = "sgd", .learning_rate = 0.1', O.SGD(0.1)),
    ("sgd_momentum", '.rule = "sgd", .learning_rate = 0.1, .hyper = {0.9}', O.SGD(0.1, momentum=0.9)),
    ("sgd_nesterov", '.rule = "sgd", .learning_rate = 0.1, .hyper = {0.9, 1}, .weight_decay = 0.02',
     O.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.02)),
    ("rmsprop", '.rule = "rmsprop", .learning_rate = 0.01, .hyper = {0.9, 0, 1e-7}', O.RMSprop(0.01)),
    ("default", ".rule = NULL", O.get("rmsprop")),
    ("rmsprop_momentum", '.rule = "rmsprop", .learning_rate = 0.01, .hyper = {0.8, 0.5, 1e-7}',
     O.RMSprop(0.01, rho=0.8, momentum=0.5)),
    ("rmsprop_centered", '.rule = "rmsprop", .learning_rate = 0.01, .hyper = {0.9, 0.5, 1e-5, 1}',
     O.RMSprop(0.01, rho=0.9, momentum=0.5, epsilon=1e-5, centered=True)),
    ("adam", '.rule = "adam", .learning_rate = 0.01, .hyper = {0.9, 0.999, 1e-7}', O.Adam(0.01)),
    ("adam_amsgrad", '.rule = "adam", .learning_rate = 0.01, .hyper = {0.8, 0.9, 1e-7, 1}, .weight_decay = 0.1',
     O.Adam(0.01, beta_1=0.8, beta_2=0.9, amsgrad=True, weight_decay=0.1)),
    ("adamw", '.rule = "adamw", .learning_rate = 0.01, .hyper = {0.9, 0.999, 1e-7}, .weight_decay = 0.004',
     O.AdamW(0.01)),
    ("adagrad", '.rule = "adagrad", .learning_rate = 0.1, .hyper = {0.1, 1e-7}', O.Adagrad(0.1)),
    ("nadam", '.rule = "nadam", .learning_rate = 0.01, .hyper = {0.9, 0.999, 1e-7}, .weight_decay = 0.1', O.Nadam(0.01, weight_decay=0.1)),
    ("nadam_accumulation", '.rule = "nadam", .learning_rate = 0.01, .hyper = {0.9, 0.999, 1e-7}, .accumulation = 2',
     O.Nadam(0.01, gradient_accumulation_steps=2)),
    ("lion", '.rule = "lion", .learning_rate = 0.01, .hyper = {0.9, 0.99}, .weight_decay = 0.1', O.Lion(0.01, weight_decay=0.1)),
    ("adamax", '.rule = "adamax", .learning_rate = 0.01, .hyper = {0.8, 0.9, 1e-7}, .weight_decay = 0.1',
     O.Adamax(0.01, beta_1=0.8, beta_2=0.9, weight_decay=0.1)),
    ("adadelta", '.rule = "adadelta", .learning_rate = 0.5, .hyper = {0.9, 1e-5}', O.Adadelta(0.5, rho=0.9, epsilon=1e-5)),
    ("clip_norm", '.rule = "sgd", .learning_rate = 0.1, .clip_norm = 0.7', O.SGD(0.1, clipnorm=0.7)),
    ("global_clip_norm", '.rule = "sgd", .learning_rate = 0.1, .global_clip_norm = 0.9', O.SGD(0.1, global_clipnorm=0.9)),
    ("clip_value", '.rule = "sgd", .learning_rate = 0.1, .clip_value = 0.3', O.SGD(0.1, clipvalue=0.3)),
    ("accumulation", '.rule = "adam", .learning_rate = 0.01, .hyper = {0.9, 0.999, 1e-7}, .accumulation = 3, .clip_norm = 0.5',
     O.Adam(0.01, gradient_accumulation_steps=3, clipnorm=0.5)),
    ("exponential", '.rule = "sgd", .schedule = {.kind = ISO_SCHEDULE_EXPONENTIAL, .initial = 0.1, .rate = 0.5, .decay_steps = 4}',
     O.SGD(S.ExponentialDecay(0.1, 4, 0.5))),
    ("staircase", '.rule = "sgd", .schedule = {.kind = ISO_SCHEDULE_EXPONENTIAL, .initial = 0.1, .rate = 0.5, .decay_steps = 2, .staircase = true}',
     O.SGD(S.ExponentialDecay(0.1, 2, 0.5, staircase=True))),
    ("cosine", '.rule = "sgd", .schedule = {.kind = ISO_SCHEDULE_COSINE, .initial = 0.1, .alpha = 0.1, .decay_steps = 4}',
     O.SGD(S.CosineDecay(0.1, 4, alpha=0.1))),
    ("warmup", '.rule = "sgd", .schedule = {.kind = ISO_SCHEDULE_COSINE, .initial = 0.01, .warmup_target = 0.2, .warmup_steps = 3, .decay_steps = 4}',
     O.SGD(S.CosineDecay(0.01, 4, warmup_target=0.2, warmup_steps=3))),
    ("piecewise", '.rule = "sgd", .schedule = {.kind = ISO_SCHEDULE_PIECEWISE, .n_boundaries = 2, .boundaries = {1, 3}, .value = {0.3, 0.2, 0.1}}',
     O.SGD(S.PiecewiseConstantDecay([1, 3], [0.3, 0.2, 0.1]))),
]


def number(x):
    return f"{float(x):.9g}"


def run(optimizer, start, gradients):
    variables = [keras.Variable(w, name=f"w{i}") for i, w in enumerate(start)]
    optimizer.build(variables)
    rows = []
    for step in range(STEPS):
        optimizer.apply(list(gradients[step]), variables)
        rows.append(np.concatenate([np.asarray(v) for v in variables]))
    return rows


def main():
    random = np.random.default_rng(5)
    start = [random.uniform(-1, 1, n).astype("float32") for n in SIZES]
    gradients = [[random.uniform(-1, 1, n).astype("float32") for n in SIZES] for _ in range(STEPS)]
    total = sum(SIZES)
    out = [f"/* Made by optimizers_keras.py with Keras {keras.__version__}. */", "// clang-format off",
           f"enum {{ STEPS = {STEPS}, FIRST = {SIZES[0]}, TOTAL = {total} }};",
           "static const double start[TOTAL] = {" + ", ".join(map(number, np.concatenate(start))) + "};",
           "static const double gradients[STEPS][TOTAL] = {"]
    out += ["    {" + ", ".join(map(number, np.concatenate(g))) + "}," for g in gradients]
    out += ["};", "static const struct {", "    const char *name;", "    iso_optimizer optimizer;",
            "    double after[STEPS][TOTAL];", "} cases[] = {"]
    for name, text, optimizer in CASES:
        out.append(f'    {{"{name}", {{{text}}}, {{')
        out += ["        {" + ", ".join(map(number, row)) + "}," for row in run(optimizer, start, gradients)]
        out.append("    }},")
    out += ["};", "// clang-format on"]
    with open("tests/graph/optimizers_keras.h", "w") as file:
        file.write("\n".join(out) + "\n")


main()
