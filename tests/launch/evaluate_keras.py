"""Keras beside `isogrid evaluate` and `isogrid predict`: evaluate_keras.py ISOGRID WEIGHTS FOLDER"""

import json
import subprocess
import sys

import h5py
import keras
import numpy as np

isogrid, weights, folder = sys.argv[1:]
layers = keras.layers
model = keras.Sequential([
    keras.Input((28, 28, 1)), layers.Rescaling(1 / 255), layers.Flatten(),
    layers.Dense(128, activation="relu"), layers.Dense(10)])
model.load_weights(weights)
model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])

generator = np.random.default_rng(1)
x = (255 * generator.random((45, 28, 28, 1))).astype(np.float32)
y = generator.integers(0, 10, 45).astype(np.int32)
w = generator.random(45).astype(np.float32)
with h5py.File(f"{folder}/rows.h5", "w") as file:
    file["x"], file["y"], file["weights"] = x, y, w


def run(*arguments):
    return subprocess.run([isogrid, *arguments, "--model", "dtensor", "--weights",
                           weights, "--data", f"{folder}/rows.h5"],
                          check=True, capture_output=True, text=True).stdout


def close(what, ours, theirs):
    gap = np.max(np.abs(np.asarray(ours) - theirs) / np.maximum(1, np.abs(theirs)))
    print(f"{what}: {gap:.1e}")
    assert gap <= 1e-5, (what, ours, theirs)


theirs = model.evaluate(x, y, batch_size=32, verbose=0)
ours = json.loads(run("evaluate", "--json"))
close("loss", ours["loss"], theirs[0])
close("accuracy", ours["accuracy"], theirs[1])
ours = json.loads(run("evaluate", "--json", "--sample-weight", "weights"))
close("weighted loss", ours["loss"],
      model.evaluate(x, y, sample_weight=w, batch_size=45, verbose=0)[0])
run("predict", "--out", f"{folder}/predicted.h5")
with h5py.File(f"{folder}/predicted.h5") as file:
    assert list(file) == ["y"]
    close("predictions", file["y"][:], model.predict(x, verbose=0))
