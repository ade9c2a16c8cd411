"""models/weighted.keras and weighted.json: what Keras's fit reports if only some of the data have sample weights;
models/positions.keras and positions.json: the same with a weight for each position of a row.

    python make_weighted.py        (see README.md for the format)
"""

import json

import common

keras = common.keras_on_jax("float32")
import numpy as np
from make_table import pack
from make_training import hashed

ROWS, VALIDATION, EPOCHS, BATCH = 20, 12, 2, 8


def weights(seed, shape):
    return ((np.arange(np.prod(shape)) * 5 + seed) % 4 / 2).astype(np.float32).reshape(shape)


def rows(seed, count):
    return hashed(seed, (count, 3), 1.0), hashed(seed + 1, (count, 2), 1.0), weights(seed, (count,))


def rows_of_positions(seed, count):
    labels = (np.arange(count * 4) * 7 + seed) % 11 % 3
    return hashed(seed, (count, 4, 2), 1.0), labels.astype(np.float32).reshape(count, 4), weights(seed, (count, 4))


def make(name, net, loss, metrics, weighted, rows):
    path = common.HERE / "models" / f"{name}.keras"
    net.compile(keras.optimizers.SGD(0.1), loss, metrics=metrics, weighted_metrics=weighted)
    net.save(path)
    pack(path)

    def fit(training, validation):
        """training, validation: whether they have weights"""
        keras.backend.clear_session()
        net = keras.saving.load_model(path)
        x, y, w = rows(10, ROWS)
        history = net.fit(x, y, sample_weight=w if training else None, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0,
                          validation_data=rows(20, VALIDATION)[:3 if validation else 2])
        return {name: [float(f"{v:.9g}") for v in values] for name, values in history.history.items()}

    parts = {"training": rows(10, ROWS), "validation": rows(20, VALIDATION)}
    out = {"batch_size": BATCH, "epochs": EPOCHS,
           "rows": {name: dict(zip(("x", "y", "sample_weight"), [a.tolist() for a in part])) for name, part in parts.items()},
           "logs": {f"{t} {v}": fit(t == "weights", v == "weights") for t in ("weights", "none") for v in ("weights", "none")}}
    (common.HERE / f"{name}.json").write_text(json.dumps(out) + "\n")


keras.utils.set_random_seed(1)
make("weighted", keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(2)]),
     "mse", ["mae"], ["mae", "mse"], rows)
make("positions", keras.Sequential([keras.Input((4, 2), name="x"), keras.layers.Dense(4, activation="tanh"),
                                    keras.layers.Dense(3, activation="softmax")]),
     "sparse_categorical_crossentropy", ["accuracy"], ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)], rows_of_positions)
