"""What `isogrid evaluate` and `isogrid predict` print and write, against the same network in numpy (float64) and,
where this Python has it and it is asked for, Keras: evaluate_oracle.py ISOGRID WEIGHTS FOLDER [keras]"""

import json
import subprocess
import sys

import h5py
import numpy as np

isogrid, weights, folder = sys.argv[1:4]
ROWS = 45

generator = np.random.default_rng(1)
x = (255 * generator.random((ROWS, 28, 28, 1))).astype(np.float32)
y = generator.integers(0, 10, ROWS).astype(np.int32)
w = generator.random(ROWS).astype(np.float32)
with h5py.File(f"{folder}/rows.h5", "w") as file:
    file["x"], file["y"], file["weights"] = x, y, w


def numpy_answers():
    """Predictions, mean loss, accuracy and the loss by sample weights: their mean over the rows, as Keras has it."""
    with h5py.File(weights) as file:
        layers = [[np.asarray(file[f"layers/{name}/vars/{i}"], np.float64) for i in range(2)] for name in ("dense", "dense_1")]
    h = x.reshape(ROWS, 784).astype(np.float64) / 255
    h = np.maximum(h @ layers[0][0] + layers[0][1], 0)
    logits = h @ layers[1][0] + layers[1][1]
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(ROWS), y]
    return logits, losses.mean(), (logits.argmax(axis=1) == y).mean(), (losses * w.astype(np.float64)).mean()


def keras_answers():
    import keras
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Rescaling(1 / 255), layers.Flatten(),
        layers.Dense(128, activation="relu"), layers.Dense(10)])
    model.load_weights(weights)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    loss, accuracy = model.evaluate(x, y, batch_size=32, verbose=0)
    weighted = model.evaluate(x, y, sample_weight=w, batch_size=ROWS, verbose=0)[0]
    return model.predict(x, verbose=0), loss, accuracy, weighted


def run(ranks, *arguments):
    launcher = ["launch/mpirun", "-np", str(ranks)] if ranks > 1 else []
    return subprocess.run([*launcher, isogrid, *arguments, "--model", "dtensor", "--weights",
                           weights, "--data", f"{folder}/rows.h5"],
                          check=True, capture_output=True, text=True).stdout


def close(what, ours, theirs, tolerance):
    gap = np.max(np.abs(np.asarray(ours) - theirs) / np.maximum(1, np.abs(theirs)))
    print(f"{what}: {gap:.1e}")
    assert gap <= tolerance, (what, ours, theirs)


SHARDED = ["--layout", "d2/kernel=-, model", "--layout", "d2/bias=model", "--layout", "d1/kernel=model, -"]
oracles = {"numpy": numpy_answers()}
if "keras" in sys.argv[4:]:
    oracles["Keras"] = keras_answers()
for ranks, setting in ((1, []), (3, ["--mesh", "data=3", "--batch-size", "7"]), (3, ["--mesh", "data=2,model=2", *SHARDED])):
    for precision, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        common = [*setting, "--precision", precision]
        values = json.loads(run(ranks, "evaluate", "--json", *common))
        weighted = json.loads(run(ranks, "evaluate", "--json", "--sample-weight", "weights", *common))
        run(ranks, "predict", "--out", f"{folder}/predicted.h5", *common)
        with h5py.File(f"{folder}/predicted.h5") as file:
            assert list(file) == ["y"]
            predicted = file["y"][:]
        for name, (theirs, loss, accuracy, by_weights) in oracles.items():
            bound = tolerance if name == "numpy" else 1e-5
            title = f"{name}, {ranks} ranks, {precision}: "
            close(title + "loss", values["loss"], loss, bound)
            close(title + "accuracy", values["accuracy"], accuracy, bound)
            close(title + "weighted loss", weighted["loss"], by_weights, bound)
            close(title + "predictions", predicted, theirs, bound)
