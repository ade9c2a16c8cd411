"""Runs every command that README.md and docs/*.md show, those of a page in their order and in a folder of its own, with 5,200 images instead of
60,000, 4 steps an epoch and one round of measurements: documented_commands.py ISOGRID. Each must end with exit code 0, or 2 where the page shows an error, print
what the page shows below it ("..." for what is left out), or what its kind prints, and write the files that it names.

A command is a line of a code block that begins with isogrid, build/isogrid, or a launcher of one of them, or with a word of NOT_RUN, whose
commands are listed with the reason. Any other line that begins like a command of a shell is an error here."""

import glob
import gzip
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

import h5py
import numpy as np

ROOT = os.getcwd()
ISOGRID = os.path.abspath(sys.argv[1])
NOT_RUN = {
    "launch/demo": "it installs packages, then trains for a minute",
    "tests/run": "it is what runs this",
    "make": "it comes before the tests",
    "gcc": "tests/launch/test_install compiles the program in this way",
    "./train": "tests/launch/test_install runs it",
    "tensorboard": "it is TensorBoard's; tests/train/test_tensorboard_reads reads the files",
    "tests/gpu/pack": "tests/gpu/test_pack runs it",
    "tests/gpu/run": "tests/gpu/test_run runs it without a GPU",
}
COMMAND = re.compile(r"^(?:(?:launch/|isogrid-)?mpirun -np \d+ )?(?:build/)?isogrid (?:[a-z]+|--version)\b")
PROGRAMS = re.compile(r"^(?:make|gcc|cc|mpirun|srun|sbatch|python3?|pip|apt-get|launch/\S+|tests/\S+|build/\S+|\./\S+|tensorboard)(?: |$)")
FILES = re.compile(r"^[^=]*: ")  # "tests/x.h5: weights ..." is what a command prints
SHOWN = {"train": "loss: |training is complete", "evaluate": "loss: ", "predict": r"\[", "inspect": "layers/", "plan": "mesh", "visualize": "slot", "models": "convnet",
         "calibrate": r"\d ops on ", "convert": "", "follow": "1.weights.h5: epoch 1|has ended", "doctor": "ok  |\"version\": 1"}


def blocks(page):
    """The lines of each code block: [(number, text)]."""
    found, fence, language = [[]], False, ""
    for number, line in enumerate(open(page, encoding="utf-8").read().splitlines(), 1):
        if line.strip().startswith("```"):
            fence = not fence
            language = line.strip()[3:]
            found.append([])
        elif fence and language in ("", "sh"):
            found[-1].append((number, line.strip() if line.startswith("   $") else line))
        elif not fence and re.match(r"^ {4,}\S", line):
            found[-1].append((number, line.strip()))
        elif not fence:
            found.append([])
    return [block for block in found if block]


def commands(page):
    """[(number, command, what is shown: lists of lines that stand in a row; None: nothing)]"""
    found = []
    for block in blocks(page):
        current, i = None, 0
        while i < len(block):
            number, text = block[i]
            i += 1
            while text.endswith("\\") and i < len(block):
                text = text[:-1] + block[i][1].strip()
                i += 1
            prompt, text = text.startswith("$ "), text.removeprefix("$ ")
            command = re.sub(r"\s+#.*$", "", text)
            known = COMMAND.match(command) and "[OPTION...]" not in command
            if known or (PROGRAMS.match(command) and not FILES.match(command)):
                current = (number, command, [[]] if prompt else None)
                found.append(current)
            elif current and current[2] is not None:
                if text == "...":
                    current[2].append([])
                else:
                    current[2][-1].append(text.rstrip())
    return found


def stands_in(part, lines):
    return any(lines[i:i + len(part)] == part for i in range(len(lines) - len(part) + 1))


def write_idx(path, array):
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def prepare_data(data):
    """The data set, of few images."""
    generator = np.random.default_rng(3)
    os.makedirs(f"{data}/fashion-mnist")
    for part, rows in (("train", 5200), ("t10k", 100)):
        images = np.repeat(generator.integers(0, 256, (rows, 28, 1)), 28, axis=2)
        write_idx(f"{data}/fashion-mnist/{part}-images-idx3-ubyte.gz", images.astype(np.uint8))
        write_idx(f"{data}/fashion-mnist/{part}-labels-idx1-ubyte.gz", generator.integers(0, 10, rows).astype(np.uint8))


def prepare(folder):
    """What the pages take as given beside it: models of Keras and Hugging Face with their rows."""
    generator = np.random.default_rng(3)
    for name in ("tests", "launch", "docs", "build", "models"):
        os.symlink(f"{ROOT}/{name}", f"{folder}/{name}")
    with open(f"{folder}/book.txt", "w", encoding="utf-8") as file:
        file.write("It was the best of times, it was the worst of times. " * 200)
    shutil.copy(f"{ROOT}/tests/keras/table/dense_softmax.keras", f"{folder}/net.keras")
    shutil.copytree(f"{ROOT}/tests/huggingface/gpt2", f"{folder}/gpt2")
    letters = {letter: i for i, letter in enumerate("?abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")}
    with open(f"{folder}/gpt2/tokenizer.json", "w") as file:  # for the 61 tokens of the model
        json.dump({"model": {"type": "BPE", "unk_token": "?", "vocab": letters, "merges": []}}, file)
    generator.integers(0, 61, 2000).astype("<u2").tofile(f"{folder}/tokens.bin")
    for name in ("train", "test"):
        with h5py.File(f"{folder}/{name}.h5", "w") as file:
            file["x"] = generator.standard_normal((96, 4)).astype(np.float32)
            file["y"] = generator.integers(0, 3, 96).astype(np.int32)
    shutil.copytree(f"{ROOT}/tests/encoders/bert-base", f"{folder}/bert-base-uncased")
    with open(f"{folder}/bert-base-uncased/tokenizer.json", "w") as file:  # for the 31 tokens of the model
        letters = {letter: i for i, letter in enumerate([*"?abcdefghijklmnopqrstuvwxyz", "[MASK]"])}
        json.dump({"model": {"type": "BPE", "unk_token": "?", "vocab": letters, "merges": []}}, file)
    with open(f"{folder}/reviews.tsv", "w") as file:
        file.write("text\tlabel\n" + "good\t1\nbad\t0\n" * 48)
    shutil.copytree(f"{ROOT}/tests/encoders/vit-base", f"{folder}/vit-base")
    with h5py.File(f"{folder}/images.h5", "w") as file:
        file["x"] = generator.integers(0, 256, (96, 12, 12, 3)).astype(np.uint8)
        file["y"] = generator.integers(0, 10, 96).astype(np.int32)
    for name in ("texts", "other-texts"):
        with h5py.File(f"{folder}/{name}.h5", "w") as file:
            file["input_ids"] = generator.integers(0, 31, (96, 10)).astype(np.int32)
            file["labels"] = generator.integers(0, 2, 96).astype(np.int32)
    for name, labels in (("entities", 9), ("masked", 31)):
        with h5py.File(f"{folder}/{name}.h5", "w") as file:
            file["input_ids"] = generator.integers(0, 31, (96, 10)).astype(np.int32)
            file["labels"] = generator.integers(0, labels, (96, 10)).astype(np.int32)


def run(command, folder, data):
    """The command in its folder; a checkpoint whose name has a loss is the one that there is of that epoch."""
    words = shlex.split(command)
    words = [ISOGRID if word.endswith("isogrid") else "launch/mpirun" if word == "isogrid-mpirun" else word for word in words]
    for i, word in enumerate(words):
        named = re.match(r"^(.*/\d+)-[0-9.]+(\.weights\.h5)$", word)
        if named and not os.path.exists(f"{folder}/{word}"):
            words[i] = [*glob.glob(f"{folder}/{named[1]}-*{named[2]}"), word][0]
    if "calibrate" in words and "--rounds" not in words:
        words += ["--rounds", "1"]
    if "train" in words and "--steps-per-epoch" not in words:
        at = words.index(":") if ":" in words else len(words)
        words[at:at] = ["--steps-per-epoch", "4"]
    ended = subprocess.run(words, cwd=folder, env={**os.environ, "ISOGRID_DATA": data}, capture_output=True, text=True, check=False, timeout=1800)
    return words, ended.returncode, [line.rstrip() for line in (ended.stdout + ended.stderr).splitlines()]


def check(command, shown, folder, data):
    """What is wrong; '' where nothing is."""
    pipe, command = command.split(" | ")[1:], command.split(" | ")[0]
    words, code, lines = run(command, folder, data)
    text = "\n".join(lines)
    wanted = 2 if shown and any(line.startswith("isogrid: error:") for part in shown for line in part) else 0
    if code != wanted:
        return f"exit code {code}, not {wanted}:\n{text}"
    for part in shown or []:
        if not stands_in(part, lines):
            return "it does not print:\n" + "\n".join(part) + "\nbut:\n" + text
    if pipe and subprocess.run(pipe[0].replace("python3", sys.executable), shell=True, input=text, capture_output=True, text=True, check=False).returncode:
        return f"{pipe[0]} does not take:\n{text}"
    kind = words[words.index(ISOGRID) + 1]
    if shown is None and wanted == 0 and kind in SHOWN and not re.search(SHOWN[kind], text) and not pipe:
        return f"it prints nothing with '{SHOWN[kind]}':\n{text}"
    made = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("--out", "--save")]
    made += [os.path.dirname(words[i + 1]) for i, word in enumerate(words[:-1]) if word in ("--checkpoint", "--tensorboard")]
    if kind == "convert":
        made.append(words[words.index("convert") + 2])
    for name in made:
        if not os.path.exists(f"{folder}/{name}"):
            return f"it does not write '{name}':\n{text}"
    return ""


def check_page(page, folder, data):
    failed, count = False, 0
    prepare(folder)
    for number, command, shown in commands(page):
        first = command.split()[0]
        if not COMMAND.match(command):
            if first not in NOT_RUN:
                print(f"{page}:{number}: '{command}' is neither run nor listed in documented_commands.py with the reason")
                failed = True
            else:
                print(f"not run: {page}:{number}: {command}: {NOT_RUN[first]}")
            continue
        if "--backend cuda" in command and not os.path.exists("/dev/nvidiactl"):
            print(f"not run: {page}:{number}: {command}: there is no GPU; tests/standin/test_train runs the same on a stand-in")
            continue
        count += 1
        wrong = check(command, shown, folder, data)
        if wrong:
            print(f"{page}:{number}: '{command}': {wrong}")
            failed = True
    print(f"{page}: {count} commands")
    return failed, count


def main():
    failed, total = False, 0
    with tempfile.TemporaryDirectory() as data:
        prepare_data(data)
        for page in ["README.md", *sorted(glob.glob("docs/*.md"))]:
            with tempfile.TemporaryDirectory() as folder:
                page_failed, count = check_page(page, folder, data)
            failed |= page_failed
            total += count
    if total < 40:
        print(f"only {total} commands were found")
        failed = True
    return failed


sys.exit(main())
