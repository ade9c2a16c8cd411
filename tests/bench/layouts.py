"""The step time of the guides' models under each layout on two slots, beside pure data parallel, and beside Keras on JAX with
DataParallel and ModelParallel on two devices. Started by tests/bench/run layouts."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import compare

DATA = "data parallel"
COLUMNS_AND_ROWS = {"dense": ("d1", "d2"), "dtensor": ("d1", "d2"), "mlp": ("dense", "dense_1")}


def layout(**keys):
    """--layout options: dense__kernel="-, model" is the key dense/kernel."""
    return [word for key, text in keys.items() for word in ("--layout", key.replace("__", "/") + "=" + text)]


def layouts_of(model):
    """name -> options"""
    cases = {DATA: ["--mesh", "data=2"], "ZeRO 3": ["--mesh", "data=2", "--zero", "3"]}
    if model == "convnet":
        filters = layout(**{"conv2d.*__kernel": "-, -, -, model", "large_k__kernel": "-, -, -, model"})
        cases["filters"] = ["--mesh", "data=1,model=2"] + filters
        cases["height"] = ["--mesh", "data=1,space=2"] + layout(image__output="data, space, -, -")
    else:
        first, second = COLUMNS_AND_ROWS[model]
        cases["columns, then rows"] = ["--mesh", "data=1,model=2"] + layout(
            **{f"{first}__kernel": "-, model", f"{second}__kernel": "model, -"})
        cases["columns"] = ["--mesh", "data=1,model=2"] + layout(**{f"{first}__kernel": "-, model"})
    return cases


JOBS = {"mlp": 32, "convnet": 64, "dense": 16, "dtensor": 250}  # the guides' batch sizes
KERAS = {f"Keras on JAX, {name}": compare.PYTHON + ["peer_keras.py", "--devices", "2", "--parallel", how]
         for name, how in (("DataParallel", "data"), ("ModelParallel", "model"))}
WITH_PEERS = ("mlp", "convnet")


def run_ours(options, model, batch, arguments):
    data = "random:24000" if model == "dense" else "fashion-mnist"  # dense learns ten numbers a row
    with tempfile.NamedTemporaryFile("r", suffix=".json") as timings:
        command = [str(compare.ROOT / "build/isogrid"), "train", "--model", model, "--data", data, "--batch-size", str(batch), "--verbose",
                   "0", "--epochs", str(arguments.epochs), "--drop-remainder", "--timings", timings.name] + options
        compare.timed(command, {}, compare.ROOT, arguments.limit)
        lines = [json.loads(text) for text in timings.read().splitlines()]
    return statistics.median(line["seconds"] / line["steps"] for line in lines[1:])


def run_peer(command, model, batch, arguments):
    return batch / compare.run_peer(command, model, batch, arguments.epochs, arguments.limit)["rate"]


def measure(model, arguments):
    """name -> median seconds of a step; in every round each runs once, so that all meet the same machine."""
    batch = JOBS[model]
    runners = {name: (run_ours, options) for name, options in layouts_of(model).items()}
    if model in WITH_PEERS and not arguments.no_peers:
        runners |= {name: (run_peer, command) for name, command in KERAS.items()}
    seconds = {name: [] for name in runners}
    for _ in range(arguments.rounds):
        for name, (runner, how) in runners.items():
            try:
                seconds[name].append(runner(how, model, batch, arguments))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{model}: {name}: {error}", file=sys.stderr)
    return {name: statistics.median(rows) for name, rows in seconds.items() if rows}


def print_table(model, seconds):
    print(f"\n{model}, batch {JOBS[model]}, two slots")
    print(f"  {'':32}{'a step':>12}{'to data parallel':>18}")
    for name, each in seconds.items():
        print(f"  {name:32}{1e6 * each:9.0f} us{each / seconds[DATA]:18.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    parser.add_argument("--models", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--no-peers", action="store_true", help="without Keras")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, medians of {arguments.rounds} rounds")
    failed = False
    for model in arguments.models:
        seconds = measure(model, arguments)
        failed |= DATA not in seconds or len(seconds) < len(layouts_of(model))
        if DATA in seconds:
            print_table(model, seconds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
