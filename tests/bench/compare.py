"""Runs Isogrid and its peers on the same jobs, in turn, and prints medians and ratios. Started by tests/bench/run."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOBS = (("mlp", 32), ("convnet", 64))
PYTHON = [sys.executable]
DDP = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# name: (command, whether it works on two devices)
PEERS = {
    "JAX, loop on the device": (PYTHON + ["peer_jax.py"], False),
    "JAX, two devices": (PYTHON + ["peer_jax.py", "--devices", "2"], True),
    "PyTorch, compiled": (PYTHON + ["peer_torch.py", "--mode", "compile"], False),
    "PyTorch, eager": (PYTHON + ["peer_torch.py"], False),
    "PyTorch, DDP on two processes": (DDP + ["peer_torch.py", "--threads", "1"], True),
    "Keras on JAX": (PYTHON + ["peer_keras.py"], False),
    "Keras on JAX, two devices": (PYTHON + ["peer_keras.py", "--devices", "2"], True),
}
DATA_PARALLEL = ["--mesh", "data=2"]
# The first kernel by columns, the second by rows: each slot keeps its half of the weights to itself.
MODEL_PARALLEL = ["--mesh", "data=1,model=2", "--layout", "dense/kernel=-, model", "--layout", "dense/bias=model",
                  "--layout", "dense_1/kernel=model, -"]
# Images cut in two: each slot computes half of every layer's rows and takes the rows at the border from the other.
SPATIAL = ["--mesh", "data=1,h=2", "--layout", "image/output=data, h, -, -"]
MPIRUN = [str(ROOT / "launch/mpirun"), "-np", "2"]
# name: (launcher, layout, models)
OURS = {
    "Isogrid, two slots in one process": ([], DATA_PARALLEL, ("mlp", "convnet")),
    "Isogrid, two ranks": (MPIRUN, DATA_PARALLEL, ("mlp", "convnet")),
    "Isogrid, two slots, tensor parallel": ([], MODEL_PARALLEL, ("mlp",)),
    "Isogrid, two ranks, tensor parallel": (MPIRUN, MODEL_PARALLEL, ("mlp",)),
    "Isogrid, two slots, images cut in two": ([], SPATIAL, ("convnet",)),
}


def timed(command, env, folder, limit):
    """The process's output and the seconds that it took."""
    begin = time.monotonic()
    env = dict(os.environ, BENCH_STARTED=str(begin), **env)
    done = subprocess.run(command, cwd=folder, env=env, text=True, capture_output=True, timeout=limit, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout, time.monotonic() - begin


def run_peer(command, model, batch, epochs, limit):
    cache = tempfile.mkdtemp(prefix="inductor-")  # torch.compile begins with an empty cache
    env = {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
           "OMP_NUM_THREADS": "1" if command[:len(DDP)] == DDP else "2"}
    try:
        words = command + ["--model", model, "--batch", str(batch), "--epochs", str(epochs)]
        out, seconds = timed(words, env, HERE / "peers", limit)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    line = json.loads([text for text in out.splitlines() if text.startswith("{")][-1])
    return dict(line, job=seconds)


def run_ours(ours, model, batch, epochs, limit):
    launcher, layout, _ = ours
    with tempfile.NamedTemporaryFile("r", suffix=".json") as timings:
        command = launcher + [str(ROOT / "build/isogrid"), "train", "--model", model, "--data", "fashion-mnist"] + layout
        command += ["--batch-size", str(batch), "--epochs", str(epochs), "--drop-remainder", "--test-data", "test",
                    "--timings", timings.name]
        out, seconds = timed(command, {}, ROOT, limit)
        lines = [json.loads(text) for text in timings.read().splitlines()]
    accuracy = [float(text.split()[-1]) for text in out.splitlines() if text.startswith("test (")][-1]
    rates = [line["steps"] * batch / line["seconds"] for line in lines[1:]]
    return {"rate": statistics.median(rates), "first_step": lines[0]["first_step_seconds"], "job": seconds, "accuracy": accuracy}


def measure(model, batch, options):
    """name -> list of results, one a round; in every round each runs once, so that all meet the same machine."""
    runners = {name: (run_ours, ours) for name, ours in OURS.items() if model in ours[2]}
    runners |= {name: (run_peer, command) for name, (command, _) in PEERS.items()}
    results = {name: [] for name in runners}
    for _ in range(options.rounds):
        for name, (runner, how) in runners.items():
            try:
                results[name].append(runner(how, model, batch, options.epochs, options.limit))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{model}: {name}: {error}", file=sys.stderr)
    return {name: {key: statistics.median(r[key] for r in rows) for key in rows[0]} for name, rows in results.items() if rows}


def print_table(model, batch, medians):
    print(f"\n{model}, batch {batch}")
    print(f"  {'':36}{'samples/s':>10}{'first step':>12}{'whole job':>11}{'accuracy':>10}")
    for name, row in medians.items():
        print(f"  {name:36}{row['rate']:10.0f}{row['first_step']:10.2f} s{row['job']:9.1f} s{row['accuracy']:10.3f}")


def ratio(what, value, wanted):
    met = value >= wanted
    print(f"  {what:74}{value:6.2f}  (wanted {wanted:.2f}{'' if met else ': NOT MET'})")
    return met


def judge(model, medians):
    """The speeds that Isogrid promises, as ratios within this run."""
    ours = max(medians[name]["rate"] for name in OURS if name in medians)
    peers = {name: row for name, row in medians.items() if name in PEERS}
    fastest = max(row["rate"] for row in peers.values())
    two = max(row["rate"] for name, row in peers.items() if PEERS[name][1])
    any_wanted, two_wanted = (1.6, 6) if model == "mlp" else (1.5, 3)
    met = [ratio(f"{model}: samples/s, to the fastest peer", ours / fastest, any_wanted)]
    if model == "mlp":
        met.append(ratio(f"{model}: samples/s, to the fastest peer on two devices", ours / two, two_wanted))
    else:
        keras = peers.get("Keras on JAX, two devices", {"rate": two})["rate"]
        met.append(ratio(f"{model}: samples/s, to Keras on JAX on two devices", ours / keras, two_wanted))
        job = min(medians[name]["job"] for name in OURS if name in medians)
        met.append(ratio(f"{model}: seconds of the whole job, the fastest peer's to ours", min(r["job"] for r in peers.values()) / job, 2))
    slowest = max(medians[name]["first_step"] for name in OURS if name in medians)  # both from the start of the command, reading included
    first = min(row["first_step"] for row in peers.values())
    met.append(ratio(f"{model}: seconds to the end of the first step, the fastest peer's to the slowest of ours", first / slowest, 5))
    return all(met)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    parser.add_argument("--models", nargs="*", default=[model for model, _ in JOBS])
    options = parser.parse_args()
    cpu = subprocess.run(["lscpu"], text=True, capture_output=True, check=True).stdout
    print(next(line.split(":")[1].strip() for line in cpu.splitlines() if line.startswith("Model name")),
          f"- {os.cpu_count()} cores, medians of {options.rounds} rounds")
    medians = {}
    for model, batch in JOBS:
        if model in options.models:
            medians[model] = measure(model, batch, options)
            print_table(model, batch, medians[model])
    print()
    return 0 if all([judge(model, rows) for model, rows in medians.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
