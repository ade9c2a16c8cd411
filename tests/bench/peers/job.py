"""What the peers share: the job's options, Fashion-MNIST, a clock, and the line of results."""

import argparse
import gzip
import json
import os
import statistics
import time

import numpy as np

FOLDER = os.environ.get("ISOGRID_DATA", "/usr/share/datasets") + "/fashion-mnist"
STARTED = float(os.environ.get("BENCH_STARTED", time.monotonic()))  # when compare.py started the process


def options(**extra):
    """--model, --batch, --epochs, and one option for each keyword: a tuple of choices, the first being the default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("mlp", "convnet"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    return with_choices(parser, extra)


def with_choices(parser, extra):
    parser.add_argument("--epochs", type=int, default=3)
    for name, choices in extra.items():
        parser.add_argument(f"--{name}", choices=choices, default=choices[0], type=type(choices[0]))
    return parser.parse_args()


def network_options(**extra):
    """--folder, --name (of networks.py), --epochs, and one option for each keyword, as above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--name", required=True)
    return with_choices(parser, extra)


def idx(name):
    """An IDX file: two zero bytes, a type, a rank, big-endian extents, the bytes."""
    with gzip.open(f"{FOLDER}/{name}.gz") as file:
        content = file.read()
    extents = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(extents)).reshape(extents)


def arrays(job):
    """x, y, test x, test y: float32 pixels 0..255 (of the mlp flat and 0..1), whole batches of training rows."""
    x, tx = idx("train-images-idx3-ubyte"), idx("t10k-images-idx3-ubyte")
    y, ty = (idx(f"{part}-labels-idx1-ubyte").astype(np.int32) for part in ("train", "t10k"))
    rows = len(x) // job.batch * job.batch
    shape, scale = ((-1, 784), 255) if job.model == "mlp" else ((-1, 28, 28, 1), 1)
    x, tx = ((a.astype(np.float32) / np.float32(scale)).reshape(shape) for a in (x, tx))
    return x[:rows], y[:rows], tx, ty


class Clock:
    """Seconds of the first step and of each epoch."""

    def __init__(self):
        self.first_step, self.epochs = None, []

    def step_done(self):
        if self.first_step is None:
            self.first_step = time.monotonic() - STARTED

    def epoch(self):
        return self

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *_):
        self.epochs.append(time.perf_counter() - self.begin)

    def report(self, rows, **more):
        """The first epoch compiles and warms up; the rate is the median of the others. more: numbers."""
        rate = statistics.median(rows / seconds for seconds in self.epochs[1:])
        more = {name: float(value) for name, value in more.items()}
        print(json.dumps({"rate": rate, "first_step": self.first_step} | more), flush=True)
