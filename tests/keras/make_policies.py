"""policies/*.keras: models whose layers have policies of their own, as Keras saved them;
policies.h5: what they predict, and how they go on training.

    python make_policies.py        (see README.md for the format)

Each network is built three times with the same weights: with the policies of its table (which is
saved), in float32 (`_f32`), and with mixed_bfloat16 in all layers (`_mixed`): what these differ by
tells how far the borders carry.
"""

import os

import common
import numpy as np

FOLDER = common.HERE / "policies"
ROWS, STEPS = 24, 6
MIXED, SINGLE = "mixed_bfloat16", "float32"


def borders(k, L, policy):
    """float32, with mixed_bfloat16 within; the policy as a name, an object and a map."""
    x = k.Input((12,), name="x")
    a = L.Dense(24, activation="relu", **policy("a", MIXED))(x)
    b = L.LayerNormalization(**policy("b", SINGLE))(a)
    c = L.Dense(24, **policy("c", MIXED, "map"))(b)
    d = c + b  # bfloat16 and float32
    r = L.Reshape((4, 6), **policy("r", MIXED, "object"))(d)
    n = L.LayerNormalization(**policy("n", MIXED))(d)
    n = L.Reshape((4, 6), **policy("s", SINGLE))(n)
    f = L.Add(**policy("f", MIXED))([r, n])
    h = L.BatchNormalization(**policy("h", SINGLE))(f)
    i = L.BatchNormalization(**policy("i", MIXED))(h)
    k1 = L.Conv1D(5, 2, **policy("k", SINGLE, "map"))(i)
    y = L.Flatten(**policy("l", MIXED))(k1)
    return k.Model(x, L.Dense(3, **policy("o", SINGLE))(y), name="borders")


def head(k, L, policy):
    """mixed_bfloat16, with a last layer and one within in float32."""
    return k.Sequential([
        k.Input((12,)), L.Dense(16, activation="relu", **policy("a", MIXED)),
        L.LayerNormalization(**policy("b", MIXED)),
        L.Dense(16, activation="tanh", **policy("c", SINGLE)),
        L.Dense(8, activation="relu", **policy("d", MIXED)),
        L.Dense(3, **policy("o", SINGLE))], name="head")


def normalized(k, L, policy):
    """Normalization in mixed_bfloat16 and in float32."""
    mean, variance = [0.1 * i - 0.5 for i in range(12)], [0.3 + 0.2 * i for i in range(12)]
    x = k.Input((12,), name="x")
    a = L.Normalization(mean=mean, variance=variance, **policy("a", MIXED))(x)
    b = L.Dense(24, activation="relu", **policy("b", SINGLE))(a)
    c = L.Normalization(axis=None, mean=0.7, variance=1.7, **policy("c", SINGLE))(b)
    d = L.Dense(12, **policy("d", MIXED))(c)
    e = L.Normalization(mean=mean, variance=variance, invert=True, **policy("e", MIXED))(d)
    return k.Model(x, L.Dense(3, **policy("o", SINGLE))(e), name="normalized")


def of_table(keras):
    def policy(name, own, form="name"):
        made = keras.DTypePolicy(own)
        if form == "map":
            made = keras.dtype_policies.DTypePolicyMap(
                keras.DTypePolicy(SINGLE if own == MIXED else MIXED), {name: made, "other": made})
        return dict(name=name, dtype=own if form == "name" else made)
    return policy


def everywhere(own):
    return lambda name, _, form="name": dict(name=name, dtype=own)


def run(keras, name, build, file):
    generator = common.rng(name)
    x = common.normal(generator, (ROWS, 12))
    t = common.normal(generator, (ROWS, 3))
    weights, data = None, {"x0": x, "t0": t}
    for suffix, policy in (("", of_table(keras)), ("_f32", everywhere(SINGLE)), ("_mixed", everywhere(MIXED))):
        keras.backend.clear_session()
        model = build(keras, keras.layers, policy)
        if weights is None:
            weights = []
            for v in model.weights:
                noise = common.normal(generator, v.shape, 0.3)
                weights.append(1 + np.abs(noise) if "variance" in v.path or "gamma" in v.path else noise)
        model.set_weights(weights)
        model.compile(keras.optimizers.SGD(0.05), "mse")
        if not suffix:
            model.save(FOLDER / f"{name}.keras", zipped=True)
            model = keras.saving.load_model(FOLDER / f"{name}.keras")  # where a map finds a layer
            computes = ",".join(l.compute_dtype for l in model.layers if not isinstance(l, keras.layers.InputLayer)
                                and hasattr(l, "compute_dtype"))
        data["y0" + suffix] = np.float64(model.predict(x, verbose=0))
        history = model.fit(x, t, batch_size=ROWS, epochs=STEPS, shuffle=False, verbose=0)
        data["losses" + suffix] = np.float64(history.history["loss"])
    for what in ("y0", "losses"):
        print(name, what, *[f"{s[1:]} {np.abs(data[what] - data[what + s]).max():.1e}" for s in ("_f32", "_mixed")],
              computes)
    file.case(name, {"steps": STEPS, "computes": computes}, **data)


def main():
    keras = common.keras_on_jax("float32")
    # Without this, XLA leaves out some roundings to bfloat16 in compiled functions, though not in others.
    os.environ["XLA_FLAGS"] += " --xla_allow_excess_precision=false"
    FOLDER.mkdir(exist_ok=True)
    with common.File("policies.h5") as file:
        for build in (borders, head, normalized):
            run(keras, build.__name__, build, file)


if __name__ == "__main__":
    main()
