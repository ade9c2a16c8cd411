"""training.h5: 20 steps of each guide network by Keras, in float32 and float64.

    python make_training.py        (see README.md for the format)

No weight, image or label is stored. Images and labels are the first rows of
Fashion-MNIST's training part, in order. Weights (and the data of `dense`) come
from a hash of the element's index, in exact integers, so that any language makes
the same bits. With v the number of the variable in the model (its place in
`variables`, from 0) and i the index of the element in C order, all modulo 2^32:

    h = i * 2654435761 + (v + 1) * 2246822519
    h ^= h >> 16;  h *= 2146121005;  h ^= h >> 15;  h *= 2221713035;  h ^= h >> 16
    value = (float)((2.0 * h + 1.0 - 4294967296.0) / 4294967296.0 * limit)

(the quotient, in (-1, 1), is exact in double; one product rounds, then the cast).
A kernel has Glorot's limit sqrt(6 / (fan_in + fan_out)); biases and beta are 0,
moving means 0, moving variances 1. `dense` takes images with v = 1000 and targets
with v = 1001, both with limit 1, i running over the whole array [rows, ...].
"""

import gzip
import subprocess
import sys
import tempfile

import common
import numpy as np

STEPS = 20
DATA = "/usr/share/datasets/fashion-mnist"
MOST = 2 ** 32
MLP_L2 = 1e-3  # of mlp_l2: L2 regularisation of the three kernels


def hashed(v, shape, limit):
    """The formula above."""
    i = np.arange(np.prod(shape), dtype=np.uint64)
    low = np.uint64(MOST - 1)
    h = (i * np.uint64(2654435761) + np.uint64((v + 1) * 2246822519)) & low
    h ^= h >> np.uint64(16)
    h = h * np.uint64(2146121005) & low
    h ^= h >> np.uint64(15)
    h = h * np.uint64(2221713035) & low
    h ^= h >> np.uint64(16)
    value = (2.0 * h.astype(np.float64) + 1.0 - MOST) / MOST * limit
    return value.astype(np.float32).reshape(shape)


def initial(v, variable):
    shape = tuple(variable.shape)
    if len(shape) > 1:
        field = int(np.prod(shape[:-2]))
        fans = field * shape[-2] + field * shape[-1]
        return hashed(v, shape, np.sqrt(6.0 / fans))
    return np.full(shape, variable.name == "moving_variance", np.float32)


def fashion_mnist(part, rows=None):
    """The first rows (or all) of part "train" or "t10k", as uint8."""
    def idx(name, offset):
        with gzip.open(f"{DATA}/{part}-{name}-ubyte.gz") as f:
            return np.frombuffer(f.read(), np.uint8, offset=offset)
    images = idx("images-idx3", 16).reshape(-1, 28, 28, 1)[:rows]
    return images, idx("labels-idx1", 8)[:rows]


def networks(keras, kept_dropout=False):
    """name -> (model, loss, optimizer, batch). With `kept_dropout` as the guides
    have them (make_accuracy.py); else without their dropout layers."""
    layers = keras.layers
    drop = (lambda rate, x: layers.Dropout(rate)(x)) if kept_dropout else \
        (lambda rate, x: x)
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    adam = keras.optimizers.Adam

    def mlp(l2=None):
        made = {"kernel_regularizer": keras.regularizers.L2(l2)} if l2 else {}
        x = inputs = keras.Input((28, 28, 1))
        x = layers.Rescaling(1 / 255)(x)
        x = layers.Flatten()(x)
        x = layers.Dense(256, activation="relu", **made)(x)
        x = layers.Dense(256, activation="relu", **made)(x)
        return keras.Model(inputs, layers.Dense(10, **made)(x))

    def convnet():
        x = inputs = keras.Input((28, 28, 1))
        x = layers.Rescaling(1 / 255)(x)
        x = layers.Conv2D(12, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(scale=False, center=True)(x)
        x = layers.ReLU()(x)
        x = layers.Conv2D(24, 6, use_bias=False, strides=2)(x)
        x = layers.BatchNormalization(scale=False, center=True)(x)
        x = layers.ReLU()(x)
        x = layers.Conv2D(32, 6, padding="same", strides=2, name="large_k")(x)
        x = layers.BatchNormalization(scale=False, center=True)(x)
        x = layers.ReLU()(x)
        x = layers.GlobalAveragePooling2D()(x)
        x = layers.Dense(256, activation="relu")(x)
        x = drop(0.5, x)
        return keras.Model(inputs, layers.Dense(10)(x))

    def dense():
        x = inputs = keras.Input((28, 28, 1))
        x = layers.Flatten()(x)
        x = layers.Dense(200, use_bias=False, activation="relu", name="d1")(x)
        x = drop(0.4, x)
        return keras.Model(inputs, layers.Dense(10, activation="softmax",
                                                name="d2")(x))

    def dtensor():
        x = inputs = keras.Input((28, 28, 1))
        x = layers.Rescaling(1 / 255)(x)
        x = layers.Flatten()(x)
        x = layers.Dense(128, activation="relu", name="d1")(x)
        return keras.Model(inputs, layers.Dense(10, name="d2")(x))

    return {
        "mlp": lambda: (mlp(), logits, adam(1e-3), 32),
        "mlp_l2": lambda: (mlp(MLP_L2), logits, adam(1e-3), 32),
        "convnet": lambda: (convnet(), logits, adam(1e-3), 64),
        "dense": lambda: (dense(), keras.losses.MeanSquaredError(),
                          keras.optimizers.RMSprop(), 16),
        "dtensor": lambda: (dtensor(), logits, adam(0.01), 64),
    }


def train(keras, name, built):
    """20 steps by the guide's stateless loop."""
    import jax
    keras.backend.clear_session()  # layer names start at dense, conv2d, ...
    model, loss, optimizer, batch = built()
    if name == "dense":
        x = hashed(1000, (STEPS * batch, 28, 28, 1), 1.0)
        y = hashed(1001, (STEPS * batch, 10), 1.0)
    else:
        x, y = fashion_mnist("train", STEPS * batch)
        y = y.astype(np.int32)
    x = x.astype(keras.config.floatx())
    for v, variable in enumerate(model.weights):
        variable.assign(initial(v, variable))
    optimizer.build(model.trainable_variables)
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    def compute(trained, fixed, x, y):
        outputs, fixed, extra = model.stateless_call(
            trained, fixed, x, training=True, return_losses=True)
        return loss(y, outputs) + sum(extra), (fixed, outputs)

    @jax.jit
    def step(trained, fixed, state, x, y):
        (value, (fixed, outputs)), gradients = jax.value_and_grad(
            compute, has_aux=True)(trained, fixed, x, y)
        new, state = optimizer.stateless_apply(state, gradients, trained)
        return value, new, fixed, state, outputs, gradients

    now = [[v.value for v in vs] for vs in (model.trainable_variables,
                                            model.non_trainable_variables,
                                            optimizer.variables)]
    before = [np.asarray(v.value) for v in model.weights]
    losses, first = [], None
    for s in range(STEPS):
        rows = slice(s * batch, (s + 1) * batch)
        value, *now, outputs, gradients = step(*now, x[rows], y[rows])
        losses.append(float(value))
        if name != "dense":
            accuracy.update_state(y[rows], outputs)
        if first is None:
            first = outputs, gradients
    for vs, values in zip((model.trainable_variables,
                           model.non_trainable_variables), now):
        for variable, value in zip(vs, values):
            variable.assign(value)

    return dict(
        losses=np.array(losses), first_outputs=np.asarray(first[0], np.float64),
        accuracy=None if name == "dense" else np.float64(accuracy.result()),
        **summary("first_gradient", first[1]), **summary("initial", before),
        **summary("final", [np.asarray(v.value) for v in model.weights])), {
            "variables": ",".join(v.path for v in model.weights),
            "trainable": ",".join(v.path for v in model.trainable_variables),
            "sizes": [int(np.prod(v.shape)) for v in model.weights],
            "batch": batch, "steps": STEPS,
            "loss": "mse" if name == "dense" else "sparse_crossentropy",
            "from_logits": name != "dense",
            "l2": MLP_L2 if name == "mlp_l2" else 0.0,
            "optimizer": type(optimizer).__name__.lower(),
            "learning_rate": 0.01 if name == "dtensor" else 0.001}


def summary(name, arrays):
    """Sums, norms and five elements (first, quarters, last) of each array."""
    arrays = [np.asarray(a, np.float64).ravel() for a in arrays]
    return {f"{name}_sum": np.array([a.sum() for a in arrays]),
            f"{name}_norm": np.array([np.sqrt((a * a).sum()) for a in arrays]),
            f"{name}_elements": np.array(
                [a[[(len(a) - 1) * q // 4 for q in range(5)]] for a in arrays])}


def main():
    if len(sys.argv) == 3:  # the float32 half, in a process of its own
        keras = common.keras_on_jax("float32")
        out = {}
        for name, built in networks(keras).items():
            data, _ = train(keras, name, built)
            out.update({f"{name}/{k}": v for k, v in data.items()
                        if v is not None})
        np.savez(sys.argv[2], **out)
        return
    keras = common.keras_on_jax("float64")
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/float32.npz"
        subprocess.run([sys.executable, __file__, "float32", path], check=True)
        single = dict(np.load(path))
    with common.File("training.h5") as file:
        for name, built in networks(keras).items():
            double, head = train(keras, name, built)
            data = {}
            for key, value in double.items():
                if key.startswith("initial"):  # the same in both
                    assert (value == single[f"{name}/{key}"]).all()
                    data[key] = value
                elif value is not None:
                    data[key + "_f64"] = value
                    data[key + "_f32"] = single[f"{name}/{key}"]
            file.case(name, head, **data)
            gap = np.abs(data["losses_f32"] / data["losses_f64"] - 1)
            print(f"{name}: loss {data['losses_f64'][0]:.6f} to "
                  f"{data['losses_f64'][-1]:.6f}; float32 differs by at most "
                  f"{gap.max():.1e} (first step {gap[0]:.1e})", flush=True)


if __name__ == "__main__":
    main()
