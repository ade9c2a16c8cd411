"""How far the time that `isogrid plan --time` predicts is from the time that steps take, on one and two slots of this machine and on simulated hosts whose links
are limited (tests/support/host rate). Each network is calibrated, then trained on noise; the time of a step is that of the fastest of some
epochs, because what else runs on the machine only adds.

Usage: tests/bench/times.py [--isogrid FILE] [--prefix COMMAND] [--keras FOLDER] [--hosts N --rate RATE] [NETWORK...]
--prefix: what comes before each measured command, such as 'chrt -f 20'; --keras: a folder of vit.keras, gpt.keras, conv.keras, mlp.keras, mlp2048.keras
(Dense 4x4096), whose networks are measured too; --hosts: instead of one and two slots, so many hosts of one slot each."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# name, --model, batch size, steps of an epoch, other options
NETWORKS = [
    ("mlp b32", "mlp", 32, 400, []),
    ("mlp b256", "mlp", 256, 100, []),
    ("convnet b64", "convnet", 64, 40, []),
    ("convnet b256", "convnet", 256, 12, []),
    ("dense b16", "dense", 16, 400, []),
    ("GPT 6x384, 12x256", "gpt:layers=6,heads=6,width=384,context=256", 12, 2, ["--classes", "256"]),
    ("GPT-2 124M, 4x64", "gpt:layers=12,heads=12,width=768,context=64", 4, 2, ["--classes", "50257"]),
]
KERAS = [("ViT 4x256, b16", "vit", 16, 3), ("GPT 4x256, b16", "gpt", 16, 3), ("VGG-like b64", "conv", 64, 3), ("Dense 4x4096, b256", "mlp", 256, 2),
         ("Dense 2x2048, b64", "mlp2048", 64, 12)]


def run(arguments, command):
    ended = subprocess.run(arguments.prefix.split() + command, capture_output=True, text=True, check=False, timeout=300)
    if ended.returncode:
        sys.exit(f"{' '.join(command)} ends with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def launcher(arguments, folder):
    """The words before isogrid that start it on the hosts."""
    if not arguments.hosts:
        return []
    with open(f"{folder}/hostfile", "w", encoding="utf-8") as file:
        file.writelines(f"h{i + 1} slots=1\n" for i in range(arguments.hosts))
    return ["tests/support/host", "mpirun", "--hostfile", f"{folder}/hostfile", "-np", str(arguments.hosts)]


def measure(arguments, folder, model, batch, steps, slots, options):
    """Predicted and measured seconds of a step, and the time of the plan."""
    cal, timings = f"{folder}/cal.json", f"{folder}/timings.json"
    for path in (cal, timings):
        if os.path.exists(path):
            os.remove(path)
    common = ["--model", model, "--mesh", f"data={slots}", "--batch-size", str(batch), *options]
    place = ["--slots-per-host", "1"] if arguments.hosts else []
    threads = ["--threads", "1" if arguments.hosts else str(slots)]
    start = launcher(arguments, folder)
    run(arguments, start + [arguments.isogrid, "calibrate", *common, *place, "--threads", "1" if arguments.hosts else "2", "--out", cal])
    run(arguments, start + [arguments.isogrid, "train", *common, *threads, "--data", f"random:{batch * steps}", "--epochs", "8", "--verbose", "0", "--timings", timings])
    plan = json.loads(subprocess.run([arguments.isogrid, "plan", *common, *place, "--time", cal, "--json"], capture_output=True, text=True, check=True).stdout)
    with open(timings, encoding="utf-8") as file:
        measured = min(json.loads(line)["seconds"] for line in file) / steps
    return plan["time"], measured


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--isogrid", default="build/isogrid")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--keras")
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("networks", nargs="*")
    arguments = parser.parse_args()
    if arguments.hosts and not arguments.inside:
        sys.exit(subprocess.run(["tests/support/with_hosts", str(arguments.hosts), sys.executable, __file__, "--inside", *sys.argv[1:]], check=False).returncode)
    for i in range(arguments.hosts):
        subprocess.run(["tests/support/host", "rate", f"h{i + 1}", arguments.rate, "16k"], check=True)
    keras = [(name, f"{arguments.keras}/{file}.keras", batch, steps, []) for name, file, batch, steps in KERAS
             if arguments.keras and os.path.exists(f"{arguments.keras}/{file}.keras")]
    print("| network | slots | predicted | measured | off | computation | update | here | waits |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, model, batch, steps, options in NETWORKS + keras:
            if arguments.networks and not any(wanted in name for wanted in arguments.networks):
                continue
            for slots in [arguments.hosts] if arguments.hosts else [1, 2]:
                t, measured = measure(arguments, folder, model, batch, steps, slots, options)
                parts = " | ".join(f"{100 * t[part] / t['step']:.0f}%" for part in ("computation", "update", "here", "waits"))
                print(f"| {name} | {slots} | {1e3 * t['step']:.3g} ms | {1e3 * measured:.3g} ms | {100 * (t['step'] / measured - 1):+.0f}% | {parts} |", flush=True)


if __name__ == "__main__":
    main()
