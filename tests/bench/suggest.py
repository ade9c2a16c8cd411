"""Whether the layouts that isogrid plan --suggest proposes are faster than data parallel: both are trained in turn on mlp, dense, convnet and a
transformer of four blocks (transformer.json, as Keras's model.to_json() gives it), and the ratio of their rates is printed: at least 1,
within the noise of the machine. Needs no peers. Started by tests/bench/run suggest."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compare

# name: (model, rows of a batch, steps of an epoch)
CASES = {
    "mlp": (["--model", "mlp"], 32, 1000),
    "dense": (["--model", "dense"], 16, 1000),
    "convnet": (["--model", "convnet"], 64, 60),
    "transformer": (["--model", str(compare.HERE / "transformer.json"), "--loss", "sparse_categorical_crossentropy"], 16, 4),
}


def suggest(model, batch, slots, folder):
    """The seconds of the search, the mesh, and the file of layouts."""
    begin = time.monotonic()
    done = subprocess.run([str(compare.ROOT / "build/isogrid"), "plan", "--suggest", "--slots", str(slots), "--batch-size", str(batch)] + model,
                          capture_output=True, text=True, check=True)
    seconds = time.monotonic() - begin
    path = Path(folder) / "layouts.json"
    path.write_text(done.stdout)
    mesh = [line.split()[-1] for line in done.stderr.splitlines() if line.startswith("the layouts are for")]
    return seconds, mesh[0] if mesh else f"data={slots}", path


def rate(model, batch, steps, layout, arguments):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as timings:
        command = [str(compare.ROOT / "build/isogrid"), "train"] + model + layout
        command += ["--data", f"random:{batch * steps}", "--batch-size", str(batch), "--epochs", "3", "--verbose", "0", "--timings", timings.name]
        compare.timed(arguments.prefix.split() + command, {}, compare.ROOT, arguments.limit)
        lines = [json.loads(text) for text in timings.read().splitlines()][1:]
    return batch * sum(line["steps"] for line in lines) / sum(line["seconds"] for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--batch", type=int, help="rows of a batch; default: each network's own")
    parser.add_argument("--prefix", default="", help="goes before every training, such as 'chrt -f 20'")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take")
    arguments = parser.parse_args()
    for name in arguments.cases:
        model, batch, steps = CASES[name]
        batch = arguments.batch or batch
        with tempfile.TemporaryDirectory() as folder:
            seconds, mesh, path = suggest(model, batch, arguments.slots, folder)
            layouts = json.loads(path.read_text())
            print(f"{name}, batch {batch}: {mesh} {json.dumps(layouts)}, found in {seconds:.2f} s")
            if not layouts and mesh == f"data={arguments.slots}":
                print("  data parallel", flush=True)
                continue
            pairs = [(rate(model, batch, steps, ["--mesh", mesh, "--layout-file", str(path)], arguments),
                      rate(model, batch, steps, ["--mesh", f"data={arguments.slots}"], arguments)) for _ in range(arguments.rounds)]
            proposal, plain = (statistics.median(values) for values in zip(*pairs))
            print(f"  {proposal:.0f} samples/s, data parallel {plain:.0f}: {statistics.median(a / b for a, b in pairs):.2f} times", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
