"""Keras's save_weights and load_weights on the state of tests/bench/checkpoint, in its one process. It does not sync what it writes; that is done
here, and counted. Prints a line of JSON with medians."""

import argparse
import json
import os
import statistics
import time

os.environ["KERAS_BACKEND"] = "jax"
import keras  # noqa: E402

TENSORS, COLUMNS = 24, 4096


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    job = parser.parse_args()
    inputs = keras.Input(((job.mib << 20) // (TENSORS * COLUMNS * 4),))
    model = keras.Model(inputs, [keras.layers.Dense(COLUMNS, use_bias=False)(inputs) for _ in range(TENSORS)])
    path = f"{job.folder}/keras.weights.h5"

    def save():
        model.save_weights(path)
        with open(path, "rb+") as file:
            os.fsync(file.fileno())

    times = {"save": [], "load": []}
    for count in range(-1, job.rounds):
        if os.path.exists(path):
            os.unlink(path)
        seconds = {"save": timed(save)}
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        seconds["load"] = timed(lambda: model.load_weights(path))
        for name in times:
            if count >= 0:  # the first is not counted
                times[name].append(seconds[name])
    print(json.dumps({name: statistics.median(values) for name, values in times.items()}), flush=True)


main()
