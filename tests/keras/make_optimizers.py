"""optimizers.h5, schedules.h5 and initializers.json: what Keras's optimizers do
to three small variables in 7 steps, learning rates over steps, and the ranges
of the initializers. Computed in float64.

    python make_optimizers.py        (see README.md for the format)
"""

import json

import common

keras = common.keras_on_jax("float64")

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 7
VARIABLES = (("kernel", (5, 3)), ("bias", (7,)), ("gamma", (1,)))
O = keras.optimizers
S = O.schedules

# Optimizer -> Keras's class, and the arguments that are stored, with defaults.
OPTIMIZERS = {
    "sgd": (O.SGD, dict(learning_rate=0.01, momentum=0.0, nesterov=False)),
    "rmsprop": (O.RMSprop, dict(learning_rate=0.001, rho=0.9, momentum=0.0,
                                epsilon=1e-7, centered=False)),
    "adam": (O.Adam, dict(learning_rate=0.001, beta_1=0.9, beta_2=0.999,
                          epsilon=1e-7, amsgrad=False)),
    "adamw": (O.AdamW, dict(learning_rate=0.001, weight_decay=0.004, beta_1=0.9,
                            beta_2=0.999, epsilon=1e-7, amsgrad=False)),
    "adagrad": (O.Adagrad, dict(learning_rate=0.001,
                                initial_accumulator_value=0.1, epsilon=1e-7)),
    "nadam": (O.Nadam, dict(learning_rate=0.001, beta_1=0.9, beta_2=0.999,
                            epsilon=1e-7)),
    "lion": (O.Lion, dict(learning_rate=0.001, beta_1=0.9, beta_2=0.99)),
    "adamax": (O.Adamax, dict(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7)),
    "adadelta": (O.Adadelta, dict(learning_rate=0.001, rho=0.95, epsilon=1e-7)),
    "ftrl": (O.Ftrl, dict(learning_rate=0.001, learning_rate_power=-0.5, initial_accumulator_value=0.1,
                          l1_regularization_strength=0.0, l2_regularization_strength=0.0,
                          l2_shrinkage_regularization_strength=0.0, beta=0.0)),
    "lamb": (O.Lamb, dict(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7)),
    "adafactor": (O.Adafactor, dict(learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=1e-3,
                                    clip_threshold=1.0, relative_step=True)),
    "muon": (O.Muon, dict(learning_rate=0.001, weight_decay=0.004, adam_beta_1=0.9, adam_beta_2=0.999,
                          adam_weight_decay=0.004, epsilon=1e-7, muon_a=3.4445, muon_b=-4.775, muon_c=2.0315,
                          adam_lr_ratio=1.0, momentum=0.95, ns_steps=5, nesterov=True, exclude_embeddings=True,
                          rms_rate=0.2)),
}
SCHEDULES = {
    "exponential": (S.ExponentialDecay, dict(
        initial_learning_rate=None, decay_steps=None, decay_rate=None,
        staircase=False)),
    # warmup: 1 where a warmup_target is given.
    "cosine": (S.CosineDecay, dict(
        initial_learning_rate=None, decay_steps=None, alpha=0.0, warmup=False,
        warmup_target=0.0, warmup_steps=0)),
    "piecewise": (S.PiecewiseConstantDecay, dict(boundaries=None, values=None)),
    "polynomial": (S.PolynomialDecay, dict(
        initial_learning_rate=None, decay_steps=None, end_learning_rate=0.0001,
        power=1.0, cycle=False)),
    "inverse_time": (S.InverseTimeDecay, dict(
        initial_learning_rate=None, decay_steps=None, decay_rate=None,
        staircase=False)),
    "cosine_restarts": (S.CosineDecayRestarts, dict(
        initial_learning_rate=None, first_decay_steps=None, t_mul=2.0,
        m_mul=1.0, alpha=0.0)),
}


def schedule(kind, given):
    """Keras's schedule, and its attributes."""
    cls, defaults = SCHEDULES[kind]
    head = {**defaults, **given}
    if kind == "cosine":
        head["warmup"] = "warmup_target" in given
    return cls(**given), dict(schedule=kind, **head)


def trajectory(optimizer, start, gradients, constraint):
    """The variables after each step, by the stateless path that fit() takes,
    and their averages after the last one, if the optimizer has some."""
    variables = [keras.Variable(v.astype(np.float64), name=name, dtype="float64")
                 for (name, _), v in zip(VARIABLES, start)]
    variables[0].constraint = constraint
    optimizer.build(variables)
    values = [v.value for v in variables]
    state = [v.value for v in optimizer.variables]
    step = jax.jit(optimizer.stateless_apply)
    after = [[] for _ in variables]
    scale = optimizer.loss_scale_factor or 1  # of the loss
    for i in range(STEPS):
        values, state = step(state, [scale * jnp.asarray(g[i], jnp.float64)
                                     for g in gradients], values)
        for kept, value in zip(after, values):
            assert value.dtype == jnp.float64
            kept.append(np.asarray(value))
    kept = dict(zip(map(id, optimizer.variables), state))
    averages = [np.asarray(kept[id(a)])
                for a in optimizer._model_variables_moving_average] \
        if optimizer.use_ema else []
    return [np.stack(kept) for kept in after], averages


def optimizer_case(file, kind, name, sched=None, exclude=None, zero=False,
                   dead=False, constraint=None, **given):
    cls, defaults = OPTIMIZERS[kind]
    generator = common.rng("optimizers")  # the same numbers in every case
    start = [common.normal(generator, shape) for _, shape in VARIABLES]
    gradients = [common.normal(generator, (STEPS, *shape),
                               10.0 ** generator.uniform(-1, 1, (STEPS,) +
                                                         (1,) * len(shape)))
                 for _, shape in VARIABLES]
    if zero:
        for g in gradients:
            g[1] = 0
    if dead:  # an input and an output of the kernel
        gradients[0][:, 1, :] = 0
        gradients[0][:, :, 2] = 0
    head = dict(optimizer=kind, **{**defaults, **given})
    arguments = dict(given)
    if sched:
        made, more = schedule(sched[0], sched[1])
        arguments["learning_rate"] = made
        del head["learning_rate"]
        head.update(more)
    optimizer = cls(**arguments)
    if exclude:
        optimizer.exclude_from_weight_decay(var_names=[exclude])
        head["exclude_from_weight_decay"] = exclude
    if constraint:  # of the first variable
        config = constraint.get_config()
        axis = config.pop("axis", 0)
        head.update(constraint=type(constraint).__name__, **config)
        if axis is None:
            head["all_axes"] = True
        else:
            head["axis"] = np.atleast_1d(axis)
    after, averages = trajectory(optimizer, start, gradients, constraint)
    head.update(steps=STEPS, variables=",".join(n for n, _ in VARIABLES))
    final = {f"v{i}_average": a for i, a in enumerate(averages)}
    file.case(f"{kind}/{name}", head, **common.numbered("v", start),
              **common.numbered("g", gradients),
              **{f"v{i}_after": a for i, a in enumerate(after)}, **final)


def optimizers(file):
    for kind in OPTIMIZERS:
        few = kind in ("adamax", "adadelta", "ftrl", "lamb", "adafactor", "muon")  # what is common to all is tested often enough

        def case(name, **more):
            if not few or name in ("default", "learning_rate", "weight_decay", "zero_gradients_clipnorm",
                                   "accumulation_all", "cosine_warmup", "ema_overwrite"):
                optimizer_case(file, kind, name, **more)

        case("default")
        case("learning_rate", learning_rate=0.05)
        if kind != "adamw":
            case("weight_decay", learning_rate=0.05, weight_decay=0.1)
        case("exclude", learning_rate=0.05, weight_decay=0.1, exclude="bias")
        case("clipnorm", learning_rate=0.05, clipnorm=1.5)
        case("global_clipnorm", learning_rate=0.05, global_clipnorm=6.0)
        case("clipvalue", learning_rate=0.05, clipvalue=0.5)
        case("zero_gradients_clipnorm", learning_rate=0.05, clipnorm=1.5,
             zero=True)
        case("accumulation", learning_rate=0.05,
             gradient_accumulation_steps=3)
        case("accumulation_all", learning_rate=0.05, weight_decay=0.1,
             clipnorm=0.8, gradient_accumulation_steps=2)
        case("exponential", sched=("exponential", dict(
            initial_learning_rate=0.05, decay_steps=3, decay_rate=0.5)))
        case("staircase", sched=("exponential", dict(
            initial_learning_rate=0.05, decay_steps=3, decay_rate=0.5,
            staircase=True)))
        case("cosine_warmup", sched=("cosine", dict(
            initial_learning_rate=0.01, decay_steps=4, alpha=0.1,
            warmup_target=0.05, warmup_steps=3)))
        case("piecewise", sched=("piecewise", dict(
            boundaries=[1, 4], values=[0.05, 0.02, 0.005])))
        case("ema", learning_rate=0.05, use_ema=True)
        case("ema_overwrite", learning_rate=0.05, weight_decay=0.1,
             clipnorm=1.5, use_ema=True, ema_momentum=0.7,
             ema_overwrite_frequency=3)
        case("ema_accumulation", learning_rate=0.05, use_ema=True,
             ema_momentum=0.7, ema_overwrite_frequency=2,
             gradient_accumulation_steps=2)
        # The schedule counts batches, Adam's bias correction counts updates.
        case("accumulation_schedule", gradient_accumulation_steps=3,
             sched=("exponential", dict(initial_learning_rate=0.05,
                                        decay_steps=3, decay_rate=0.5)))
    C = keras.constraints
    for kind, name, constraint, given in (
            ("sgd", "max_norm", C.MaxNorm(1.5), {}),
            ("adam", "max_norm_last", C.MaxNorm(0.9, axis=-1), {}),
            ("sgd", "non_neg", C.NonNeg(), dict(weight_decay=0.1)),
            ("rmsprop", "unit_norm", C.UnitNorm(axis=[0, 1]), {}),
            ("sgd", "unit_norm_all", C.UnitNorm(axis=None), {}),
            ("adagrad", "min_max_norm", C.MinMaxNorm(0.5, 0.8, rate=0.5), {}),
            ("sgd", "max_norm_ema", C.MaxNorm(0.5),
             dict(use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)),
            ("adam", "min_max_norm_accumulation", C.MinMaxNorm(0.1, 0.4, 0.3),
             dict(gradient_accumulation_steps=3))):
        optimizer_case(file, kind, name, constraint=constraint,
                       learning_rate=0.05, **given)
    variants = {
        "sgd": dict(loss_scale=dict(clipnorm=1.5, loss_scale_factor=100.0),
                    momentum=dict(momentum=0.9),
                    nesterov=dict(momentum=0.9, nesterov=True),
                    nesterov_without_momentum=dict(nesterov=True)),
        "rmsprop": dict(momentum=dict(momentum=0.9), centered=dict(centered=True),
                        centered_momentum=dict(centered=True, momentum=0.5),
                        rho_epsilon=dict(rho=0.5, epsilon=1e-3)),
        "adam": dict(amsgrad=dict(amsgrad=True),
                     betas_epsilon=dict(beta_1=0.5, beta_2=0.9, epsilon=1e-2)),
        "adamw": dict(decay=dict(weight_decay=0.1),
                      amsgrad=dict(amsgrad=True)),
        "adagrad": dict(initial_accumulator=dict(initial_accumulator_value=1.0),
                        epsilon=dict(epsilon=0.5)),
        "nadam": dict(betas_epsilon=dict(beta_1=0.5, beta_2=0.9,
                                         epsilon=1e-2)),
        "lion": dict(betas=dict(beta_1=0.5, beta_2=0.8)),
        "adamax": dict(betas_epsilon=dict(beta_1=0.5, beta_2=0.7, epsilon=1e-2)),
        "adadelta": dict(rho_epsilon=dict(rho=0.6, epsilon=1e-3)),
        "ftrl": dict(power=dict(learning_rate_power=-0.8, initial_accumulator_value=0.3),
                     regularization=dict(l1_regularization_strength=0.2, l2_regularization_strength=0.3,
                                         l2_shrinkage_regularization_strength=0.1, beta=0.5)),
        "lamb": dict(betas_epsilon=dict(beta_1=0.5, beta_2=0.7, epsilon=1e-2)),
        "adafactor": dict(decay_clip=dict(beta_2_decay=-0.5, clip_threshold=0.4), weight=dict(epsilon_2=5.0),
                          epsilon=dict(epsilon_1=0.5), dead=dict(dead=True), fixed_step=dict(relative_step=False),
                          decay_schedule=dict(weight_decay=0.1, sched=("exponential", dict(
                              initial_learning_rate=0.5, decay_steps=3, decay_rate=0.5)))),
        "muon": dict(betas_epsilon=dict(adam_beta_1=0.5, adam_beta_2=0.7, epsilon=1e-2, adam_lr_ratio=0.3),
                     momentum=dict(momentum=0.5, nesterov=False), decays=dict(weight_decay=0.2, adam_weight_decay=0.1),
                     steps=dict(ns_steps=3, muon_a=3.0, muon_b=-4.0, muon_c=1.5, rms_rate=0.5)),
    }
    for kind, cases in variants.items():
        for name, given in cases.items():
            optimizer_case(file, kind, name, learning_rate=0.05, **given)
    # Norms of decayed weights: the rule needs the rate of the step.
    decay = dict(initial_learning_rate=0.5, decay_steps=3, decay_rate=0.5)
    for name, sched in {
            "exponential": ("exponential", decay),
            "staircase": ("exponential", dict(staircase=True, **decay)),
            "cosine": ("cosine", dict(initial_learning_rate=0.5, decay_steps=4, alpha=0.1)),
            "warmup": ("cosine", dict(initial_learning_rate=0.1, decay_steps=4, warmup_target=0.5, warmup_steps=3)),
            "piecewise": ("piecewise", dict(boundaries=[1, 4], values=[0.5, 0.2, 0.05])),
            "polynomial": ("polynomial", dict(initial_learning_rate=0.5, decay_steps=4, power=0.7)),
            "cycle": ("polynomial", dict(initial_learning_rate=0.5, decay_steps=3, cycle=True)),
            "inverse_time": ("inverse_time", decay),
            "inverse_staircase": ("inverse_time", dict(staircase=True, **decay)),
            "restarts": ("cosine_restarts", dict(initial_learning_rate=0.5, first_decay_steps=2, t_mul=1.5, m_mul=0.8,
                                                 alpha=0.1)),
            "equal_restarts": ("cosine_restarts", dict(initial_learning_rate=0.5, first_decay_steps=3, t_mul=1.0))}.items():
        optimizer_case(file, "lamb", f"decay_{name}", sched=sched, weight_decay=0.3)


def schedules(file):
    def case(kind, name, **given):
        made, head = schedule(kind, given)
        steps = np.arange(0, 31, dtype=np.int32)
        values = [float(made(jnp.asarray(s))) for s in steps]
        file.case(f"{kind}/{name}", head, steps=steps, rates=np.array(values))

    decay = dict(initial_learning_rate=0.1, decay_steps=7, decay_rate=0.8)
    case("exponential", "smooth", **decay)
    case("exponential", "staircase", staircase=True, **decay)
    case("cosine", "plain", initial_learning_rate=0.1, decay_steps=20)
    case("cosine", "alpha", initial_learning_rate=0.1, decay_steps=20, alpha=0.2)
    case("cosine", "warmup", initial_learning_rate=0.0, decay_steps=20,
         warmup_target=0.1, warmup_steps=5)
    case("cosine", "warmup_from", initial_learning_rate=0.01, decay_steps=15,
         alpha=0.1, warmup_target=0.1, warmup_steps=8)
    case("cosine", "target_without_steps", initial_learning_rate=0.01,
         decay_steps=20, warmup_target=0.1)
    case("piecewise", "three", boundaries=[5, 20], values=[0.1, 0.01, 0.001])
    case("polynomial", "line", initial_learning_rate=0.1, decay_steps=20)
    case("polynomial", "square", initial_learning_rate=0.1, decay_steps=12,
         end_learning_rate=0.0, power=2.0)
    case("polynomial", "cycle", initial_learning_rate=0.1, decay_steps=7,
         end_learning_rate=0.02, power=0.5, cycle=True)
    case("inverse_time", "smooth", **decay)
    case("inverse_time", "staircase", staircase=True, **decay)
    case("cosine_restarts", "plain", initial_learning_rate=0.1,
         first_decay_steps=7)
    case("cosine_restarts", "more", initial_learning_rate=0.1,
         first_decay_steps=5, t_mul=1.5, m_mul=0.8, alpha=0.1)
    case("cosine_restarts", "equal", initial_learning_rate=0.1,
         first_decay_steps=9, t_mul=1.0, m_mul=0.5)
    case("piecewise", "two", boundaries=[10], values=[1.0, 0.5])


def initializers():
    """The limit (uniform) or standard deviation (normal) by shape. Normal ones
    are cut at two of the deviations asked of the generator, `stddev_before_cut`,
    so that `stddev` is what comes out; Keras divides by 0.87962566103423978."""
    names = {"glorot_uniform": "GlorotUniform", "glorot_normal": "GlorotNormal",
             "he_uniform": "HeUniform", "he_normal": "HeNormal",
             "lecun_uniform": "LecunUniform", "lecun_normal": "LecunNormal"}
    shapes = {"bias": (10,), "dense": (784, 256), "conv2d": (3, 5, 12, 24),
              "embedding": (1000, 16)}
    out = {"versions": common.versions(), "cases": []}
    for name, cls in names.items():
        for use, shape in shapes.items():
            made = getattr(keras.initializers, cls)(seed=1)
            fan_in, fan_out = \
                keras.src.initializers.random_initializers.compute_fans(shape)
            fan = max(1.0, fan_in if made.mode == "fan_in"
                      else (fan_in + fan_out) / 2)
            variance = made.scale / fan
            head = dict(name=name, use=use, shape=shape, fan_in=fan_in,
                        fan_out=fan_out)
            sample = np.asarray(made(shape))
            if made.distribution == "uniform":
                limit = float(np.sqrt(3 * variance))
                head.update(limit=limit, stddev=float(np.sqrt(variance)))
                bound = limit
            else:
                before = float(np.sqrt(variance) / 0.87962566103423978)
                head.update(stddev=float(np.sqrt(variance)),
                            stddev_before_cut=before, limit=2 * before)
                bound = 2 * before
            # Keras's own sample agrees with what is written.
            assert np.abs(sample).max() <= bound
            if sample.size > 1000:
                assert abs(sample.std() / head["stddev"] - 1) < 0.05
            out["cases"].append(head)
    out["cases"] += [
        dict(name="zeros", limit=0.0, stddev=0.0, mean=0.0),
        dict(name="ones", limit=0.0, stddev=0.0, mean=1.0),
        dict(name="uniform", use="Embedding's default, RandomUniform",
             limit=0.05, stddev=0.05 / 3 ** 0.5),
        dict(name="normal", use="RandomNormal, not cut", stddev=0.05),
        dict(name="truncated_normal", use="TruncatedNormal: no correction",
             stddev=0.05 * 0.87962566103423978, stddev_before_cut=0.05,
             limit=0.1)]
    path = common.HERE / "initializers.json"
    path.write_text(json.dumps(out, indent=1) + "\n")
    print(f"{path.name}: {len(out['cases'])} cases, {path.stat().st_size} bytes")


with common.File("optimizers.h5") as file:
    optimizers(file)
with common.File("schedules.h5") as file:
    schedules(file)
initializers()
