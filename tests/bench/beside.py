"""How much of its speed a training keeps beside other processes that compute: mlp, in slots of one process and in ranks, beside as many
busy processes as there are cores and twice as many. Needs no peers. Started by tests/bench/run beside."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import compare

# name: (launcher, mesh)
CASES = {
    "2 slots": ([], "data=2"),
    "2 ranks": (["-np", "2"], "data=2"),
    "4 slots": ([], "data=4"),
    "4 ranks": (["-np", "4"], "data=4"),
    "8 slots": ([], "data=8"),
    "8 ranks": (["-np", "8"], "data=8"),
}


def steps_a_second(program, case, arguments):
    ranks, mesh = CASES[case]
    launcher = arguments.prefix.split() + ([str(compare.ROOT / "launch/mpirun")] + ranks if ranks else [])
    with tempfile.NamedTemporaryFile("r", suffix=".json") as timings:
        command = launcher + [program, "train", "--model", arguments.model, "--data", f"random:{arguments.batch * arguments.steps}",
                              "--batch-size", str(arguments.batch), "--epochs", str(arguments.epochs + 1), "--verbose", "0",
                              "--drop-remainder", "--mesh", mesh, "--timings", timings.name]
        compare.timed(command, {}, compare.ROOT, arguments.limit)
        lines = [json.loads(text) for text in timings.read().splitlines()][1:]
    return sum(line["steps"] for line in lines) / sum(line["seconds"] for line in lines)


def measure(programs, cases, busy, arguments):
    """(program, case) -> median steps a second beside so many busy processes; the programs in turn, round by round."""
    loop = arguments.prefix.split() + [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(loop) for _ in range(busy)]
    rates = {}
    try:
        for _ in range(arguments.rounds):
            for case in cases:
                for program in programs:
                    rates.setdefault((program, case), []).append(steps_a_second(program, case, arguments))
    finally:
        for other in others:
            other.kill()
            other.wait()
    return {key: statistics.median(values) for key, values in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2, help="that are timed; one goes before")
    parser.add_argument("--steps", type=int, default=1000, help="of an epoch")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--busy", type=int, nargs="*", default=[0, os.cpu_count(), 2 * os.cpu_count()], help="busy processes")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--programs", nargs="*", default=[str(compare.ROOT / "build/isogrid")], help="to compare builds")
    parser.add_argument("--prefix", default="", help="goes before every command, such as 'nice -n -20'")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take")
    arguments = parser.parse_args()
    alone = {}
    print(f"{arguments.model}, batch {arguments.batch}, {os.cpu_count()} cores, medians of {arguments.rounds} rounds: steps/s")
    for busy in arguments.busy:
        rates = measure(arguments.programs, arguments.cases, busy, arguments)
        alone = alone or rates
        print(f"beside {busy} busy processes")
        for case in arguments.cases:
            columns = [f"{rates[p, case]:10.0f} ({rates[p, case] / alone[p, case]:.2f} of that beside {arguments.busy[0]})"
                       for p in arguments.programs]
            print(f"  {case:10}" + "".join(columns), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
