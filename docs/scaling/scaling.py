"""Strong and weak scaling of some networks on a network of hosts, as `isogrid plan --time` predicts them: writes results.json, from which picture.py draws.

Usage, in the root of the repository: python3 docs/scaling/scaling.py [--isogrid FILE] [--prefix COMMAND] [--calibration FILE]
--prefix: what comes before each calibration, such as 'chrt -f 20'. It takes some minutes, most of them to calibrate."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORK = f"{HERE}/ethernet-100g.json"
HOSTS = [1, 4, 16, 64, 256, 1024, 4096]
SLOTS = 2  # of a host
MEMORY = 256 * 2**30  # of a host
TENSOR = ["--layout-file", "models/layouts/gpt-tensor.json"]
CONV_TENSOR = ["--layout", "(conv|large).*/kernel=-,-,-,model", "--layout", "dense.*/kernel=-,model"]
# name, model, the model that is calibrated, options, rows of a slot (weak) and of all (strong), options of tensor layouts, the largest tensor axis, the mixed one
NETWORKS = [
    ("convnet", "convnet", "convnet", [], 64, 4096, CONV_TENSOR, 8, 4),
    ("GPT-2 (124M), 1024 tokens a row", "gpt:layers=12,heads=12,width=768,context=1024", "gpt:layers=1,heads=12,width=768,context=1024", ["--classes", "50257"], 1, 512,
     TENSOR, 4, 4),
    ("GPT (6.7 billion), 512 tokens a row", "gpt:layers=32,heads=32,width=4096,context=512", "gpt:layers=1,heads=32,width=4096,context=512", ["--classes", "50257"], 1, 1024,
     TENSOR, 32, 8),
]
LAYOUTS = ["data", "ZeRO-3", "tensor", "mixed"]


def placed(layout, slots, network):
    """Options of mesh and layouts; None: there is no such layout on so many slots."""
    tensor, most, mixed = network[6:]
    if layout in ("data", "ZeRO-3"):
        return ["--mesh", f"data={slots}", *(["--zero", "3"] if layout == "ZeRO-3" else [])]
    if layout == "tensor":
        return ["--mesh", f"data=1,model={slots}", *tensor] if slots <= most else None
    return ["--mesh", f"data={slots // mixed},model={mixed}", *tensor] if slots >= 2 * mixed else None


def calibrate(arguments, path):
    for network in NETWORKS:
        _, _, model, options, rows, _, _, _, _ = network
        for layout in LAYOUTS:
            slots = 4 if layout == "tensor" else 64
            subprocess.run([*arguments.prefix.split(), arguments.isogrid, "calibrate", "--model", model, *options, "--batch-size", str(rows * slots), "--slots-per-host",
                            str(SLOTS), *placed(layout, slots, network), "--rounds", "1" if model != "convnet" else "9", "--out", path],
                           check=True, stdout=subprocess.DEVNULL)


def predict(arguments, path, network, layout, hosts, rows):
    """What the plan says of a step; None: there is no such layout."""
    where = placed(layout, hosts * SLOTS, network)
    data = hosts * SLOTS // (1 if layout in ("data", "ZeRO-3") else network[8] if layout == "mixed" else hosts * SLOTS)
    if not where or data > rows:
        return None
    plan = json.loads(subprocess.run([arguments.isogrid, "plan", "--json", "--model", network[1], *network[3], "--batch-size", str(rows), "--slots-per-host", str(SLOTS),
                                      *where, "--time", path, "--network", NETWORK], check=True, capture_output=True, text=True).stdout)
    kept = ("step", "rows_per_second", "computation", "update", "intra_host", "exposed", "inter_host", "hidden", "measured", "machine", "network")
    return {**{key: plan["time"][key] for key in kept}, "memory": plan["host_memory"]["total"], "fits": plan["host_memory"]["total"] <= MEMORY}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--isogrid", default="build/isogrid")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--calibration")
    arguments = parser.parse_args()
    if "OPENBLAS_CORETYPE" in os.environ:
        sys.exit("OPENBLAS_CORETYPE is set, and changes how fast products are: unset it")
    results = {"date": str(datetime.date.today()), "network": json.load(open(NETWORK, encoding="utf-8")), "slots": SLOTS, "memory": MEMORY, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.calibration or f"{folder}/calibration.json"
        if not os.path.exists(path):
            calibrate(arguments, path)
        for network in NETWORKS:
            for layout in LAYOUTS:
                for hosts in HOSTS:
                    for kind, rows in (("weak", network[4] * hosts * SLOTS), ("strong", network[5])):
                        found = predict(arguments, path, network, layout, hosts, rows)
                        if found:
                            results["machine"] = found.pop("machine")
                            found.pop("network")
                            results["rows"].append({"model": network[0], "layout": layout, "kind": kind, "hosts": hosts, "batch": rows, **found})
    with open(f"{HERE}/results.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(results, indent=None).replace('{"model"', '\n{"model"') + "\n")


if __name__ == "__main__":
    main()
