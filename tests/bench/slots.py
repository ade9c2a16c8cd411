"""What many slots cost: seconds from start to end, and the most memory, of one step of mlp with one row a slot, in one process and on two
ranks. Needs no peers. Started by tests/bench/run slots."""

import argparse
import os
import resource
import subprocess
import sys
import time

import compare


def run(program, slots, ranks, arguments):
    """Seconds and the kilobytes of the largest process; None: it took too long or failed."""
    launcher = [str(compare.ROOT / "launch/mpirun"), "-np", str(ranks)] if ranks > 1 else []
    command = launcher + [program, "train", "--model", "mlp", "--data", f"random:{slots}", "--batch-size", str(slots), "--epochs", "1",
                          "--verbose", "0", "--mesh", f"data={slots}"]
    reader, writer = os.pipe()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:  # its own children are counted apart from those of other runs
        try:
            done = subprocess.run(command, capture_output=True, timeout=arguments.limit, check=False).returncode
        except subprocess.TimeoutExpired:
            done = -1
        os.write(writer, b"%d %d" % (done, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
        os._exit(0)
    os.waitpid(child, 0)
    seconds = time.monotonic() - begin
    code, peak = map(int, os.read(reader, 100).split())
    os.close(reader)
    os.close(writer)
    return (seconds, peak) if code == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="*", default=[64, 256, 1024, 5000])
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--programs", nargs="*", default=[str(compare.ROOT / "build/isogrid")], help="to compare builds")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a run may take")
    arguments = parser.parse_args()
    for ranks in arguments.ranks:
        for slots in arguments.slots:
            results = [run(program, slots, ranks, arguments) for program in arguments.programs]
            cells = [f"{r[0]:8.2f} s {r[1] / 1024:8.0f} MiB" if r else f"more than {arguments.limit:.0f} s, or failed" for r in results]
            print(f"{slots:6} slots, {ranks} ranks" + "   ".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
