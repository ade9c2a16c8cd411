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
LIMIT = 300  # seconds of a peer
WANTED = {"save": 1.25, "stall": 1.5, "load": 1.25}
TORCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "save_torch.py"]
KERAS = [sys.executable, "save_keras.py"]


def run_ours(options):
    command = [str(compare.ROOT / "launch/mpirun"), "-np", "4", str(compare.ROOT / "build/tests/bench/checkpoint"), "--json"]
    return json.loads(subprocess.run(command + options, check=True, text=True, capture_output=True).stdout)


def run_peer(command, options):
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
    peer = subprocess.Popen(command + options, cwd=compare.HERE / "peers", env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, errors = peer.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        peer.terminate()  # it ends its own processes
        peer.communicate()
        raise RuntimeError(f"did not end within {LIMIT} s") from error
    if peer.returncode:
        raise RuntimeError(f"exit code {peer.returncode}: {(errors or out).strip()[-500:]}")
    return json.loads([text for text in out.splitlines() if text.startswith("{")][-1])


def judge(what, times):
    """Ratios within rounds, their medians."""
    for kind, wanted in WANTED.items():
        met = times[OURS[kind]] <= wanted
        words = f"{what}: {OURS[kind]}, to {PLAIN[kind]}"
        print(f"  {words:74}{times[OURS[kind]]:6.2f}  (wanted {wanted:.2f}{'' if met else ': NOT MET'})")


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
        columns = run_ours(options + ["--columns", "--width", "256"])
        rows = {
            "plain calls": {name: ours["seconds"][kind] for name, kind in PLAIN.items()},
            "Isogrid": {name: ours["seconds"][kind] for name, kind in OURS.items()},
            "Isogrid, cut by columns": {name: columns["seconds"][kind] for name, kind in OURS.items()},
        }
        for name, command in (("torch.distributed.checkpoint", TORCH), ("Keras save_weights", KERAS)):
            try:
                rows[name] = run_peer(command, options)
            except RuntimeError as error:
                print(f"{name}: {error}")
    print(f"{job.mib} MiB, 4 processes, medians of {job.rounds}: seconds, and times the plain calls'")
    for name, row in rows.items():
        cells = [f"{row[kind]:8.3f} ({row[kind] / rows['plain calls'][kind]:5.2f})" if kind in row else " " * 16 for kind in OURS]
        print(f"{name:30}", *(f"{kind} {cell}" for kind, cell in zip(OURS, cells)))
    judge("cut by rows", ours["times"])
    judge("cut by columns, 64 a process", columns["times"])


main()
