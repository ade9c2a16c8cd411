"""hostile/*.h5: small files of weights, a few bytes of which were changed until
HDF5 1.10.8 itself crashed on them, or (one) never came to an end. Usage: make_hostile.py ISOGRID (the program,
whose `inspect` says how HDF5 ended); needs h5py."""

import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(__file__).resolve().parent / "hostile"
WANTED = 3  # of each kind
TRIES = 6000


def base(path, libver):
    with h5py.File(path, "w", libver=libver) as file:
        group = file.create_group("layers/dense/vars")
        group.attrs["name"] = "dense"
        group["0"] = np.arange(6, dtype="f4").reshape(2, 3)
        group.create_dataset("1", data=np.arange(8, dtype="f4"), chunks=(4,),
                             compression=1)


def mutate(data, generator):
    data = bytearray(data)
    used = [i for i, b in enumerate(data) if b]
    for _ in range(generator.integers(1, 4)):
        at = used[generator.integers(len(used))] + generator.integers(-2, 3)
        data[max(0, min(at, len(data) - 1))] = generator.choice(
            [0, 1, 255, 128, 127, generator.integers(256)])
    return bytes(data)


def end_of(program, path):
    done = subprocess.run([program, "inspect", path], capture_output=True)
    text = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 2):
        raise SystemExit(f"isogrid itself ended with {done.returncode}: {text}")
    if "did not finish" in text:
        return "endless"
    record = "itself failed on it: signal "
    return record in text and "signal_" + text.split(record)[1].split()[0]


def main():
    program = sys.argv[1]
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    endless = False  # one is enough: each takes seconds
    with tempfile.TemporaryDirectory() as folder:
        for kind, libver in (("old", "earliest"), ("new", ("v110", "v110"))):
            generator = np.random.default_rng(1)
            path = f"{folder}/{kind}.weights.h5"
            base(path, libver)
            data = Path(path).read_bytes()
            found = 0
            for _ in range(TRIES):
                changed = mutate(data, generator)
                Path(path).write_bytes(changed)
                end = end_of(program, path)
                if end and (end != "endless" or not endless):
                    name = f"{kind}_{found}_{end}.weights.h5"
                    endless = endless or end == "endless"
                    (FOLDER / name).write_bytes(changed)
                    print(name, len(changed), flush=True)
                    found += 1
                    if found == WANTED:
                        break


if __name__ == "__main__":
    main()
