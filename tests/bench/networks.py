"""The networks that people train: Isogrid beside its peers, in turn, medians of rounds, on all cores. Each network prints samples/s, the
multiple of the fastest peer, the share of the machine's limit, and the peak memory. The limit of a step: its FLOPs over the rate of the cores'
products (float32; for mixed_bfloat16 the faster of float32 and bfloat16), plus the bytes of weights and optimizer state over the rate of their triad, both measured in this run.
A row is met by its multiple or by its share. A peer that is not installed is skipped. Started by tests/bench/run networks, which first makes
an environment with the peers (about 7 GB), or takes the one that ISOGRID_BENCH_VENV names."""

import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import compare

sys.dont_write_bytecode = True
sys.path.insert(0, str(compare.HERE / "peers"))
from networks import NETWORKS, TOKENS  # noqa: E402

PYTHON, MPIRUN = [sys.executable], compare.MPIRUN
DEFAULT, EAGER = "by default", "PyTorch, eager"
# name: (modules that it needs, command)
PEERS = {
    "JAX": (("jax",), PYTHON + ["network_jax.py"]),
    "Keras on JAX": (("keras", "jax"), PYTHON + ["network_keras.py"]),
    EAGER: (("torch",), PYTHON + ["network_torch.py"]),
    "PyTorch, compiled": (("torch",), PYTHON + ["network_torch.py", "--mode", "compile"]),
    "PyTorch, DDP on two processes": (("torch",), compare.DDP + ["network_torch.py", "--threads", "1"]),
}
HALF = {name: (needs, command + ["--dtype", "bfloat16"]) for name, (needs, command) in PEERS.items() if name != "Keras on JAX"}
OURS = {DEFAULT: ([], []), "one slot": ([], ["--mesh", "data=1"]), "two slots": ([], ["--mesh", "data=2"]),
        "two ranks": (MPIRUN, ["--mesh", "data=2"])}

# row: (network, precision, multiple of the fastest peer that the best of ours, and the default, must reach, share of the limit)
ROWS = {
    "vit": ("vit", "float32", 1.4, 0, 0.75),
    "gpt": ("gpt", "float32", 1.4, 0, 0.75),
    "gpt-384": ("gpt-384", "float32", 1.4, 0, 0.75),
    "gpt-124m": ("gpt-124m", "float32", 1.6, 0, 0.75),
    "gpt-124m-1k": ("gpt-124m-1k", "float32", 1.2, 0, 0.75),
    "llama": ("llama", "float32", 1.2, 0, 0.75),
    "llama-bf16": ("llama", "mixed_bfloat16", 1.2, 0, 0.60),
    "gpt-4k": ("gpt-4k", "float32", 1.2, 0, 0.75),
    "moe": ("moe", "float32", 1.2, 0, 0.75),
    "gpt-384-bf16": ("gpt-384", "mixed_bfloat16", 1.3, 0, 0.60),
    "gpt-124m-bf16": ("gpt-124m", "mixed_bfloat16", 1.3, 0, 0.60),
    "vgg": ("vgg", "float32", 1.2, 0, 0.80),
    "resnet18": ("resnet18", "float32", 1.2, 0, 0.80),
    "resnet50": ("resnet50", "float32", 1.2, 0, 0.80),
    "mobilenet": ("mobilenet", "float32", 1.2, 0, None),
    "cosmoflow": ("cosmoflow", "float32", 1.2, 0, None),
    "unet3d": ("unet3d", "float32", 1.2, 0, None),
    "lstm": ("lstm", "float32", 1.2, 0, None),
    "mlp4096": ("mlp4096", "float32", 1.1, 0, 0.90),
    "mlp2048": ("mlp2048", "float32", 1.2, 0, 0.80),
    "mlp-32": ("mlp-32", "float32", 2.0, 1.3, None),
    "mlp-256": ("mlp-256", "float32", 1.4, 1.1, None),
    "convnet-64": ("convnet-64", "float32", 2.5, 0, None),
    "convnet-256": ("convnet-256", "float32", 2.5, 0, None),
    "dense-16": ("dense-16", "float32", 2.0, 1.0, None),
}
# --isa: variables that keep Isogrid, its libraries and the peers to instructions that other processors have
ISAS = {"avx2": {"ISOGRID_MAX_CPU_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
                 "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}}
JOBS = {"job-mlp": ("mlp", 32), "job-convnet": ("convnet", 64)}  # 3 epochs and the evaluation, from start to exit
JOB = 2.5


def ours_of(network):
    """name -> (launcher, options); perceptrons also with their kernels sharded by columns and by rows in turn."""
    if network.kind not in ("mlp", "dense"):
        return OURS
    layouts = ["--mesh", "data=1,model=2"]
    for i in range(network.layers + network.layers % 2):
        layouts += ["--layout", f"d{i}/kernel=model, -" if i % 2 else f"d{i}/kernel=-, model"]
        if i % 2 == 0 and network.kind == "mlp":
            layouts += ["--layout", f"d{i}/bias=model"]
    return OURS | {"two slots, tensor parallel": ([], layouts), "two ranks, tensor parallel": (MPIRUN, layouts)}


def job_of(name, precision, folder):
    """Options of isogrid train and plan, and of train alone."""
    n = NETWORKS[name]
    if n.kind in TOKENS:
        model = f"{n.kind}:layers={n.layers},heads={n.heads},width={n.width},context={n.tokens}"
        if n.kind == "llama":
            model += f",kv_heads={n.kv_heads},hidden={n.hidden}" + (f",experts={n.experts},experts_per_token=2" if n.experts else "")
        both = ["--model", model, "--classes", str(n.vocabulary), "--optimizer", "adamw", "--learning-rate", "3e-4"]
        data = f"{folder}/{name}.bin"
    else:
        both, data = ["--model", f"{folder}/{name}.keras"], f"{folder}/{name}.h5"
    both += ["--batch-size", str(n.batch)] + (["--precision", precision] if precision != "float32" else [])
    return both, ["--data", data, "--verbose", "0", "--drop-remainder"]


def run(command, env, folder, limit):
    """What the command prints, and the peak memory of its largest process, in MiB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, cwd=folder, env=dict(os.environ, **env), stdout=out, stderr=err, start_new_session=True)
        end = time.monotonic() + limit
        pid = 0
        while not pid and time.monotonic() < end:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            time.sleep(0.02)
        if not pid:
            os.killpg(child.pid, 9)
            os.wait4(child.pid, 0)
            raise RuntimeError(f"more than {limit:.0f} s")
        child.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        if child.returncode:
            raise RuntimeError(f"exit code {child.returncode}: {err.read().strip()[-500:]}")
        return out.read(), usage.ru_maxrss / 1024


def run_ours(how, row, options):
    launcher, mesh = how
    name, precision = ROWS[row][:2]
    both, train = job_of(name, precision, options.folder)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as timings:
        command = launcher + [options.program, "train"] + both + train + mesh + ["--epochs", str(options.epochs), "--timings", timings.name]
        _, memory = run(options.prefix.split() + command, {}, compare.ROOT, options.limit)
        lines = [json.loads(text) for text in timings.read().splitlines()]
    return statistics.median(line["steps"] * NETWORKS[name].batch / line["seconds"] for line in lines[1:]), memory


def run_peer(command, row, options):
    ddp = command[:len(compare.DDP)] == compare.DDP
    with tempfile.TemporaryDirectory(prefix="inductor-") as cache:  # torch.compile begins with an empty cache
        env = {"TORCHINDUCTOR_CACHE_DIR": cache, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1" if ddp else str(os.cpu_count())}
        words = options.prefix.split() + command + ["--folder", options.folder, "--name", ROWS[row][0], "--epochs", str(options.epochs)]
        out, memory = run(words, env, compare.HERE / "peers", options.limit)
    return json.loads([text for text in out.splitlines() if text.startswith("{")][-1])["rate"], memory


def chosen(peers, options):
    """Those peers whose names have one of the words of --peers."""
    return {name: how for name, how in peers.items() if any(word in name.lower() for word in options.peers.lower().split(","))}


def has(peer, kind):
    """Whether a peer has a kind of network: plain JAX perceptrons and GPTs, Keras all but those of tokens."""
    return {"JAX": kind in ("mlp", "gpt"), "Keras on JAX": kind not in TOKENS}.get(peer, True)


def runners_of(row, options):
    network = NETWORKS[ROWS[row][0]]
    half = ROWS[row][1] != "float32"
    runners = {f"Isogrid, {name}": (run_ours, how) for name, how in ours_of(network).items()}
    for name, (needs, command) in chosen(HALF if half else PEERS, options).items():
        missing = [module for module in needs if not importlib.util.find_spec(module)]
        if missing:
            print(f"{row}: {name}: skipped, {missing[0]} is not installed", file=sys.stderr)
        elif has(name, network.kind):
            runners[name] = (run_peer, command)
    return runners


def measure(row, options):
    """name -> (samples/s, MiB), medians; in every round each runs once, so that all meet the same machine."""
    results = {}
    for _ in range(options.rounds):
        for name, (runner, how) in runners_of(row, options).items():
            try:
                results.setdefault(name, []).append(runner(how, row, options))
            except RuntimeError as error:
                print(f"{row}: {name}: {error}", file=sys.stderr)
    return {name: tuple(statistics.median(column) for column in zip(*rows)) for name, rows in results.items() if rows}


def limit_of(row, machine, options):
    """Samples/s that the machine allows, by the plan's FLOPs and bytes."""
    name, precision = ROWS[row][:2]
    both, _ = job_of(name, precision, options.folder)
    plan, _ = run([options.program, "plan", "--mesh", "data=1"] + both, {}, compare.ROOT, options.limit)
    unit = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    amount, prefix = re.search(r"a step: ([\d.e+]+) ([kMGT]?)FLOP", plan).groups()
    bytes_of = {what: float(number) * unit[scale] for what, number, scale in
                re.findall(r"^  (weights|optimizer) +([\d.e+]+) ([kMGT]?)B", plan, re.MULTILINE)}
    rate = max(machine["half_gflops"] or 0, machine["gflops"]) if precision != "float32" else machine["gflops"]
    seconds = float(amount) * unit[prefix] / (1e9 * rate) + sum(bytes_of.values()) / (1e9 * machine["triad"])
    return NETWORKS[name].batch / seconds


def judge(row, medians, limit):
    """Prints a row's figures and whether it is met."""
    _, _, best_wanted, default_wanted, share_wanted = ROWS[row]
    ours = {name: rate for name, (rate, _) in medians.items() if name.startswith("Isogrid")}
    peers = {name: rate for name, (rate, _) in medians.items() if name not in ours}
    print(f"\n{row}, batch {NETWORKS[ROWS[row][0]].batch}\n  {'':36}{'samples/s':>11}{'peak MiB':>10}")
    for name, (rate, memory) in medians.items():
        print(f"  {name:36}{rate:11.1f}{memory:10.0f}")
    best, share = max(ours, key=ours.get), max(ours.values()) / limit
    print(f"  limit {limit:.1f}; {best} is {share:.2f} of it" + (f" (wanted {share_wanted:.2f})" if share_wanted else ""))
    if not peers:
        return True
    fastest, default = max(peers, key=peers.get), ours.get(f"Isogrid, {DEFAULT}", 0)
    multiple, by_default = ours[best] / peers[fastest], default / peers[fastest]
    of_slot = default / ours.get("Isogrid, one slot", default or 1)
    met = multiple >= best_wanted and by_default >= default_wanted or share_wanted is not None and share >= share_wanted
    print(f"  {multiple:.2f} times {fastest} (wanted {best_wanted:.1f}), by default {by_default:.2f}"
          + (f" (wanted {default_wanted:.1f})" if default_wanted else "") + f": {'met' if met else 'NOT MET'}")
    memory = f"; peak memory {medians[best][1] / medians[EAGER][1]:.2f} times that of {EAGER}" if EAGER in medians else ""
    print(f"  by default {of_slot:.2f} times one slot{memory}", flush=True)
    return met


def judge_job(row, options):
    """A whole job of compare.py, from start to exit."""
    options.epochs, options.limit = 3, max(options.limit, 600)
    compare.PEERS = chosen(compare.PEERS, options)
    medians = compare.measure(*JOBS[row], options)
    compare.print_table(*JOBS[row], medians)
    ours, peers = (min((line["job"] for name, line in medians.items() if (name in compare.PEERS) == theirs), default=0) for theirs in (False, True))
    return not peers or compare.ratio(f"{row}: seconds of the whole job, the fastest peer's to ours", peers / ours, JOB)


def describe(prefix, isa):
    """The machine, and its limit."""
    cpu = subprocess.run(["lscpu"], text=True, capture_output=True, check=True).stdout
    name = next(line.split(":")[1].strip() for line in cpu.splitlines() if line.startswith("Model name"))
    made = [word for word in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if word in cpu.split()]
    done = subprocess.run(prefix + [str(compare.ROOT / "build/tests/bench/limit")], text=True, capture_output=True, check=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    machine = json.loads(done.stdout)
    print(f"{name}, {os.cpu_count()} cores, {f'{isa} alone of ' if isa else ''}{' '.join(made)}, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}: "
          f"{machine['gflops']:.0f} GFLOP/s in products of 2048 ({machine['half_gflops']:.0f} in bfloat16), triad {machine['triad']:.0f} GB/s", flush=True)
    return machine


def main():
    listed = textwrap.fill("rows: " + ", ".join([*ROWS, *JOBS]), 79, subsequent_indent="  ", break_on_hyphens=False)
    parser = argparse.ArgumentParser(description=__doc__, epilog=listed, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join([*ROWS, *JOBS]), help="rows, with commas; default: all that are listed below")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="the first is not counted")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--folder", help="of the networks' files; those that it has are kept")
    parser.add_argument("--program", default=str(compare.ROOT / "build/isogrid"))
    parser.add_argument("--prefix", default="", help="goes before every command, such as 'nice -n -20'")
    parser.add_argument("--isa", choices=list(ISAS), help="the highest instruction set of Isogrid and its peers; default: the processor's")
    parser.add_argument("--peers", default="jax,pytorch", help="words with commas: peers whose names have one of them; none: no peers")
    options = parser.parse_args()
    os.environ.update(ISAS.get(options.isa, {}))
    rows = options.networks.split(",")
    unknown = [row for row in rows if row not in ROWS and row not in JOBS]
    if unknown:
        parser.error(f"no network {unknown[0]}; there are {', '.join([*ROWS, *JOBS])}")
    with tempfile.TemporaryDirectory(prefix="networks-") as folder:
        options.folder = os.path.abspath(options.folder or folder)
        os.makedirs(options.folder, exist_ok=True)
        names = {ROWS[row][0] for row in rows if row in ROWS}
        absent = [name for name in sorted(names) if not any(os.path.exists(f"{options.folder}/{name}.{end}") for end in ("h5", "bin"))]
        if absent:
            subprocess.run(PYTHON + [str(compare.HERE / "peers/networks.py"), options.folder] + absent, check=True)
        machine = describe(options.prefix.split(), options.isa)
        met = [judge(row, measure(row, options), limit_of(row, machine, options)) if row in ROWS else judge_job(row, options) for row in rows]
    print(f"\n{sum(met)} of {len(met)} rows met")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
