"""models/*.keras: models that Keras saved; models.h5: what they predict, and how
they go on training, in float32.

    python make_models.py [NAME...]   (see README.md for the format)

A row of `table` is a function that builds a model, and what it is compiled with
(None: it is not). Each model is trained for two steps before it is saved, so that
its optimizer has a state. A case holds x0, x1, ... and the predictions y0, y1, ...;
of a model that is compiled also the targets t0, t1, ..., the losses of `steps` steps
on all rows that follow, and the predictions after them, after0, after1, ...
"""

import sys

import numpy as np

import common

FOLDER = common.HERE / "models"
ROWS, STEPS = 6, 5


def convnet(k, L):
    return k.Sequential([
        k.Input((8, 7, 2)), L.Rescaling(0.5, offset=-1.0),
        L.Conv2D(4, 3, padding="same", activation="relu",
                 kernel_regularizer=k.regularizers.L2(0.01)),
        L.BatchNormalization(momentum=0.8, epsilon=1e-4), L.MaxPooling2D(2),
        L.Conv2D(6, (2, 3), strides=(2, 1), use_bias=False, groups=2), L.ReLU(),
        L.Flatten(), L.Dense(5)], name="convnet")


def shared(k, L):
    """A layer and a model that are called twice, and a frozen layer."""
    a, b = k.Input((4,), name="a"), k.Input((4,), name="b")
    inside = k.Input((4,))
    tower = k.Model(inside, L.Dense(4, activation="tanh", name="h")(inside), name="tower")
    both = L.Dense(3, activation="gelu", name="both")
    fixed = L.Dense(4, name="fixed", trainable=False)
    x = L.Add()([both(tower(a)), both(tower(fixed(b)))])
    return k.Model([a, b], L.Dense(2, name="out")(x), name="shared")


def nested(k, L):
    """Models within models, the inner ones with several inputs and outputs."""
    p, q = k.Input((3,), name="p"), k.Input((2,), name="q")
    r = L.Concatenate()([p, q])
    inner = k.Model([p, q], [L.Dense(4, name="r")(r), L.Dense(2, name="s")(r)], name="inner")
    x, y = k.Input((3,), name="x"), k.Input((2,), name="y")
    u, v = inner([x, y])
    deep = k.Sequential([k.Input((4,)), L.Dense(3, activation="silu"),
                         k.Sequential([k.Input((3,)), L.LayerNormalization()], name="norm")],
                        name="deep")
    w, z = inner([deep(u), v])
    return k.Model({"second": y, "first": x}, {"wide": w, "narrow": z}, name="nested")


def words(k, L):
    x = k.Input((5,), dtype="int32", name="words")
    y = L.Embedding(11, 6, embeddings_initializer=k.initializers.RandomNormal(0, 0.3))(x)
    y = L.Reshape((5, 6))(y)
    y = L.LayerNormalization(epsilon=1e-5)(y)
    y = L.Dense(4, activation="leaky_relu")(y)
    y = L.Flatten()(y)
    return k.Model(x, L.Dense(1, activation="sigmoid")(y), name="words")


def frozen(k, L):
    """A base whose batch normalisation rests, as in fine-tuning."""
    base = k.Sequential([k.Input((6, 6, 1)), L.Conv2D(3, 3), L.BatchNormalization(),
                         L.ELU(), L.AveragePooling2D(2)], name="base")
    base.trainable = False
    x = k.Input((6, 6, 1))
    y = L.GlobalAveragePooling2D()(base(x))
    return k.Model(x, L.Softmax()(L.Dense(3)(y)), name="frozen")


def unfrozen(k, L):
    """A base that is frozen, but for its last layer: a Functional model."""
    x = k.Input((4,))
    y = L.BatchNormalization(name="bn")(L.Dense(5, activation="tanh", name="p")(x))
    base = k.Model(x, L.Dense(4, name="q")(y), name="base")
    base.trainable = False
    base.get_layer("q").trainable = True
    x = k.Input((4,), name="x")
    return k.Model(x, L.Dense(3, name="head")(base(x)), name="unfrozen")


def own_flag(k, L):
    """A model within a model that is frozen itself, while its layers are not: Keras trains them."""
    x = k.Input((4,))
    base = k.Model(x, L.BatchNormalization(name="bn")(L.Dense(4, name="p")(x)), name="base")
    base._trainable = False
    return k.Sequential([k.Input((4,)), base, L.Dense(3, name="head")], name="own_flag")


def operations(k, L):
    """keras.ops between layers, as operators leave them."""
    x, ops = k.Input((4,), name="x"), k.ops
    y = L.Dense(4, activation="tanh")(x)
    y = x + 2 * y - 0.5
    z = 1 - L.Dense(4)(y) / 3 * ops.sigmoid(y)
    z = ops.maximum(z, ops.relu(y)) + ops.square(z)
    return k.Model(x, L.Dense(2)(-z * z), name="operations")


def distribution(k, L):
    """Probabilities that learn from probabilities."""
    return k.Sequential([k.Input((4,)), L.Dense(5, activation="tanh"), L.Dense(3, activation="softmax")],
                        name="distribution")


def table(k):
    o, s, l = k.optimizers, k.optimizers.schedules, k.losses
    logits = l.SparseCategoricalCrossentropy(from_logits=True)
    return {
        "convnet": (convnet, dict(optimizer=o.SGD(0.05, momentum=0.9, nesterov=True),
                                  loss=logits, metrics=["accuracy"])),
        "shared": (shared, dict(optimizer=o.RMSprop(s.ExponentialDecay(0.01, 3, 0.5)),
                                loss="mae", metrics=[k.metrics.MeanSquaredError()])),
        "nested": (nested, dict(optimizer=o.AdamW(0.01, clipnorm=0.5),
                                loss={"wide": "mse", "narrow": l.Huber(0.3)},
                                loss_weights={"wide": 1.0, "narrow": 0.3},
                                metrics={"narrow": ["mae"]})),
        "words": (words, dict(optimizer=o.Adam(0.02, amsgrad=True),
                              loss=l.BinaryCrossentropy(label_smoothing=0.1),
                              metrics=["accuracy"])),
        "operations": (operations, dict(optimizer="sgd", loss="mse")),
        "frozen": (frozen, dict(optimizer=o.Adagrad(0.1),
                                loss="sparse_categorical_crossentropy")),
        "unfrozen": (unfrozen, dict(optimizer=o.SGD(0.05, momentum=0.9), loss="mse")),
        "own_flag": (own_flag, dict(optimizer=o.SGD(0.05, momentum=0.9), loss="mse")),
        "distribution": (distribution, dict(optimizer=o.Adam(0.02), loss=l.KLDivergence(),
                                            metrics=[k.metrics.RootMeanSquaredError(),
                                                     k.metrics.KLDivergence(name="far")])),
    }


def inputs(model, generator):
    """Rows for each input, in Keras's order."""
    rows = []
    for tensor in model.inputs:
        shape = (ROWS,) + tuple(tensor.shape[1:])
        if tensor.dtype.startswith("int"):
            rows.append(generator.integers(0, 11, shape).astype(np.int32))
        else:
            rows.append(common.normal(generator, shape))
    return rows


def is_sparse(loss):
    return "Sparse" in type(loss).__name__ or "sparse" in str(loss)


def targets(model, compiled, generator):
    loss = compiled["loss"]
    rows = []
    for number, tensor in enumerate(model.outputs):
        keys = sorted(loss) if isinstance(loss, dict) else None
        own = loss[keys[number]] if keys else loss[number] if isinstance(loss, list) else loss
        shape = (ROWS,) + tuple(tensor.shape[1:])
        if is_sparse(own):
            rows.append(generator.integers(0, shape[-1], shape[:-1]).astype(np.int32))
        elif "inary" in str(own) + type(own).__name__:
            rows.append(generator.integers(0, 2, shape).astype(np.float32))
        elif "Divergence" in type(own).__name__:
            share = np.exp(common.normal(generator, shape))
            rows.append(share / share.sum(-1, keepdims=True))
        else:
            rows.append(common.normal(generator, shape))
    return rows


def flat(value):
    """In Keras's order: dictionaries by their keys."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def like(structure, values):
    """The values in a structure such as a model has for its inputs or outputs."""
    if isinstance(structure, dict):
        return dict(zip(sorted(structure), values))
    return values if isinstance(structure, (list, tuple)) else values[0]


def structure(model, which):
    """What a model is called with, or gives: a tensor, a list, a dictionary."""
    of_one = getattr(model, which)[0]
    return getattr(model, f"_{which}_struct", of_one)


def run(keras, name, row, file):
    build, compiled = row
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    generator = common.rng(name)
    model = build(keras, keras.layers)
    for v in model.weights:
        scale = 0.3 if len(v.shape) > 1 else 0.1
        noise = common.normal(generator, v.shape, scale)
        v.assign(1 + np.abs(noise) if "variance" in v.path or "gamma" in v.path else noise)
    x = inputs(model, generator)
    given = like(structure(model, "inputs"), x)
    data = common.numbered("x", x)
    steps = 0
    if compiled:
        t = targets(model, compiled, generator)
        wanted = like(structure(model, "outputs"), t)
        model.compile(**compiled)
        model.fit(given, wanted, batch_size=ROWS, epochs=2, shuffle=False, verbose=0)
    model.save(FOLDER / f"{name}.keras", zipped=True)
    model = keras.saving.load_model(FOLDER / f"{name}.keras")  # what the file says, no more
    data |= common.numbered("y", [np.float64(y) for y in flat(model.predict(given, verbose=0))])
    if compiled:
        history = model.fit(given, wanted, batch_size=ROWS, epochs=STEPS, shuffle=False, verbose=0)
        steps = STEPS
        data |= common.numbered("t", t)
        data["losses"] = np.float64(history.history["loss"])
        data |= common.numbered("after", [np.float64(y) for y in flat(model.predict(given, verbose=0))])
    file.case(name, {"inputs": len(x), "outputs": len(model.outputs), "steps": steps}, **data)


def main(names):
    keras = common.keras_on_jax("float32")
    FOLDER.mkdir(exist_ok=True)
    with common.File("models.h5") as file:
        for name, row in table(keras).items():
            if not names or name in names:
                run(keras, name, row, file)


if __name__ == "__main__":
    main(sys.argv[1:])
