"""tensorboard.json: what Keras's TensorBoard callback writes: folder, tag and step of
each value, in order. TensorFlow is not needed: a module of its name notes what Keras
asks its summaries for.

    python make_tensorboard.py
"""

import contextlib
import json
import sys
import types
from pathlib import Path

import common
import numpy as np

keras = common.keras_on_jax("float32")


class Summaries(types.ModuleType):
    """The part of tensorflow.summary that Keras uses, with its rules: a value goes to the
    innermost writer, at the given step or that writer's, where the innermost condition
    holds."""

    def __init__(self):
        super().__init__("tensorflow.summary")
        self.written = []
        self.writers = []  # (folder, step)
        self.conditions = []

    def create_file_writer(self, folder):
        summaries = self

        class Writer:
            @contextlib.contextmanager
            def as_default(self, step=None):
                summaries.writers.append((Path(folder).name, step))
                yield
                summaries.writers.pop()

            def flush(self):
                pass

            def close(self):
                pass

        return Writer()

    @contextlib.contextmanager
    def record_if(self, condition):
        self.conditions.append(condition)
        yield
        self.conditions.pop()

    def scalar(self, tag, value, step=None):
        if not self.writers or (self.conditions and not self.conditions[-1]()):
            return
        folder, usual = self.writers[-1]
        self.written.append([folder, tag, int(usual if step is None else step)])

    histogram = scalar


def run(options, validation, epochs=3):
    summaries = Summaries()
    package = types.ModuleType("tensorflow")
    package.summary = summaries
    sys.modules.update({"tensorflow": package, "tensorflow.summary": summaries})
    model = keras.Sequential([
        keras.Input((3,)), keras.layers.Dense(7, activation="relu", name="a"),
        keras.layers.BatchNormalization(name="n"), keras.layers.Dense(1, name="b")])
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    x, y = np.zeros((26, 3)), np.zeros((26, 1))
    model.fit(x, y, batch_size=8, epochs=epochs, verbose=0, validation_data=(x, y) if validation else None,
              validation_batch_size=10 if validation else None,
              callbacks=[keras.callbacks.TensorBoard("logs", write_graph=False, **options)])
    return [[folder, tag.removeprefix(model.name + "/"), step] for folder, tag, step in summaries.written]


CASES = [
    ({}, True),
    ({}, False),
    ({"update_freq": "batch"}, True),
    ({"update_freq": 3, "write_steps_per_second": True}, True),
    ({"update_freq": 5}, False),
    ({"write_steps_per_second": True}, False),
    ({"histogram_freq": 1}, False),
    ({"histogram_freq": 2, "update_freq": 4}, True),
]


def main():
    cases = [{"options": {**options, "update_freq": {"batch": 1}.get(options.get("update_freq"), options.get("update_freq", 0))},
              "validation": validation, "written": run(options, validation)} for options, validation in CASES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (common.HERE / "tensorboard.json").write_text(
        '{"versions": %s, "cases": [\n%s\n]}\n' % (json.dumps(common.versions()), lines))


if __name__ == "__main__":
    main()
