"""Checkpoints beside the plainest calls that could do the same, and beside torch.distributed.checkpoint and Keras's save_weights on the same
state: 24 matrices of float32, sharded by rows over four processes (Keras: one). Started by tests/bench/run checkpoints."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import compare

OURS = {"save": "checkpoint", "stall": "stall of a save", "load": "checkpoint read"}
PLAIN = {"save": "plain write + fsync", "stall": "memcpy", "load": "plain read"}
TORCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "save_torch.py"]
KERAS = [sys.executable, "save_keras.py"]


def run_ours(options):
    command = [str(compare.ROOT / "launch/mpirun"), "-np", "4", str(compare.ROOT / "build/tests/bench/checkpoint"), "--json"]
    return json.loads(subprocess.run(command + options, check=True, text=True, capture_output=True).stdout)


def run_peer(command, options):
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
    done = subprocess.run(command + options, cwd=compare.HERE / "peers", env=env, text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return json.loads([text for text in done.stdout.splitlines() if text.startswith("{")][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/tmp", help="on the disk that is to be measured")
    job = parser.parse_args()
    subprocess.run(["make", "-s", "build/tests/bench/checkpoint"], cwd=compare.ROOT, check=True)
    with tempfile.TemporaryDirectory(dir=job.folder) as folder:
        options = ["--folder", folder, "--mib", str(job.mib), "--rounds", str(job.rounds)]
        ours = run_ours(options)
        rows = {"plain calls": {name: ours[kind] for name, kind in PLAIN.items()}, "Isogrid": {name: ours[kind] for name, kind in OURS.items()}}
        for name, command in (("torch.distributed.checkpoint", TORCH), ("Keras save_weights", KERAS)):
            try:
                rows[name] = run_peer(command, options)
            except RuntimeError as error:
                print(f"{name}: {error}")
    print(f"{job.mib} MiB, 4 processes, medians of {job.rounds}: seconds, and times the plain calls'")
    for name, row in rows.items():
        cells = [f"{row[kind]:8.3f} ({row[kind] / rows['plain calls'][kind]:5.2f})" if kind in row else " " * 16 for kind in OURS]
        print(f"{name:30}", *(f"{kind} {cell}" for kind, cell in zip(OURS, cells)))


main()
