"""How far the time that `isogrid plan --time` predicts is from the time that steps take: the networks of networks.py on one and two slots of this
machine, and on simulated hosts of one slot each whose links are limited (tests/support/host rate). Each network is calibrated, then trained on noise.
The time of a step in the middle of an epoch is the difference between epochs of few and of many steps (medians), over the steps that they differ by.

The cores of a virtual machine may be threads of one core at times: a measurement waits until all cores together do at least 0.95 (--free) of the arithmetic
that they do one by one (build/tests/bench/cores), and is made again if they no longer do when it ends.

Needs build/isogrid and build/tests/bench/cores (make build/tests/bench/cores).

Usage: tests/bench/times.py --folder FOLDER [--isogrid FILE] [--prefix COMMAND] [--slots N,... | --hosts N --rate RATE] [--repeat N] [--keep FOLDER [--part PART]] [NETWORK...]
--folder: of the networks' files (peers/networks.py writes them); --prefix: what comes before each measured command, such as 'nice -n -20' (not
'chrt -f 20': the kernel takes the cores from real-time threads for 50 ms in each second, kernel.sched_rt_runtime_us); --hosts: instead of one and two
slots, so many hosts; --seconds: about how long the measured steps of a network take in all; --rounds: of a calibration; --repeat: how often a cell is
calibrated and trained in turn, of which the medians are printed, since the speed of a virtual machine varies; --free 0: whatever the cores do, where
they are never free for long, with --repeat; --keep: a folder that gets the
calibrations; --part: 'calibrate' or 'train' (with the calibrations that --keep has), where the machine is not free for long enough for both; NETWORK:
rows of networks.py, default all."""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
spec = importlib.util.spec_from_file_location("rows_of_networks", f"{HERE}/networks.py")  # peers/networks.py has the same name
networks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)

EPOCHS = 6  # at most, of few steps, and as many of four times as many; the first is not counted
TRIES, PAUSE = 20, 3  # of a measurement; seconds between two looks at the cores
# h1, h2, ... take the cores in turn, and keep them: two that met on one core would have half the speed, in some runs and not in others
ON_ITS_CORE = 'host=$(hostname); exec taskset -c $(( (${host#h} - 1) % $(nproc --all) )) "$@"'


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
    return ["tests/support/host", "mpirun", "--hostfile", f"{folder}/hostfile", "-np", str(arguments.hosts),
            "sh", "-c", ON_ITS_CORE, "sh"]


def limit(host, rate):
    """Limits a host's link. Packets fit into the bucket, or the kernel would cut each on the cores that compute; TCP keeps little in the link's queue, as
    with the queues of real cards: acknowledgements wait behind what is in it, and two hosts that send to each other would stall."""
    name = f"h{host}"
    subprocess.run(["tests/support/host", "rate", name, rate, "40k"], check=True)
    subprocess.run(["ip", "link", "set", f"to_{name}", "gso_max_size", "32768"], check=True)
    subprocess.run(["tests/support/host", "exec", name, "ip", "link", "set", "eth0", "gso_max_size", "32768"], check=True)
    subprocess.run(["tests/support/host", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_limit_output_bytes=131072", "net.ipv4.tcp_slow_start_after_idle=0"],
                   check=True)


def job_of(row, arguments):
    """Options of calibrate, train and plan; the rate of learning changes no time."""
    both, _ = networks.job_of(*networks.ROWS[row][:2], arguments.folder)
    at = both.index("--learning-rate") if "--learning-rate" in both else len(both)
    return both[:at] + both[at + 2:], networks.NETWORKS[networks.ROWS[row][0]].batch


def epoch(arguments, start, job, batch, steps, epochs, folder):
    """Seconds of an epoch of `steps` steps."""
    path = f"{folder}/timings.json"
    run(arguments, start + [arguments.isogrid, "train", *job, "--data", f"random:{batch * steps}", "--epochs", str(epochs), "--verbose", "0",
                            "--timings", path])
    with open(path, encoding="utf-8") as file:
        seconds = [json.loads(line)["seconds"] for line in file]
    os.remove(path)
    return statistics.median(seconds[1:])


def cores_are_free(arguments):
    least, _, cores = run(arguments, ["build/tests/bench/cores", "10"]).split()
    return float(least) >= arguments.free * int(cores)


def calibrate(arguments, start, job, place, path):
    if os.path.exists(path):
        os.remove(path)
    rounds = ["--rounds", str(arguments.rounds)] if arguments.rounds else []
    run(arguments, start + [arguments.isogrid, "calibrate", *job, *place, *rounds, "--out", path])


def predict(arguments, job, place, path):
    """The time of the plan."""
    plan = subprocess.run([arguments.isogrid, "plan", *job, *place, "--time", path, "--json"], capture_output=True, text=True, check=True).stdout
    return json.loads(plan)["time"]


def measure_once(row, slots, arguments, folder):
    """The time of the plan, and the measured seconds of a step; None: calibrated only."""
    job, batch = job_of(row, arguments)
    job += ["--mesh", f"data={slots}", "--threads", "1" if arguments.hosts else str(slots)]
    place = ["--slots-per-host", "1"] if arguments.hosts else []
    start = launcher(arguments, folder)
    path = f"{arguments.keep or folder}/{row}-{slots}{'-hosts' if arguments.hosts else ''}.json"
    if arguments.part != "train":
        calibrate(arguments, start, job, place, path)
    if arguments.part == "calibrate":
        return None
    plan = predict(arguments, job, place, path)
    few = max(int(arguments.seconds / plan["step"] / EPOCHS / 5), 2 if plan["step"] < 1 else 1)  # the difference of 4 and 1 steps is too rough
    epochs = min(max(int(arguments.seconds / plan["step"] / few / 5), 2), EPOCHS)
    short, long = (epoch(arguments, start, job, batch, steps, epochs, folder) for steps in (few, 4 * few))
    return plan, (long - short) / (3 * few)


def measure_undisturbed(row, slots, arguments, folder):
    """A measurement before and after which the cores were free; exits if there is none."""
    for _ in range(TRIES):
        if not cores_are_free(arguments):
            time.sleep(PAUSE)
            continue
        found = measure_once(row, slots, arguments, folder)
        if cores_are_free(arguments):
            return found
        print(f"{row}: disturbed, measured again", file=sys.stderr, flush=True)
    return sys.exit(f"{row}: the cores together do less than {arguments.free} of what they do one by one, in {TRIES} tries")


def measure(row, slots, arguments, folder):
    """The medians of several measurements: the plan whose step is in the middle."""
    found = [measure_undisturbed(row, slots, arguments, folder) for _ in range(arguments.repeat)]
    if not found[0]:
        return None
    plans = sorted((plan for plan, _ in found), key=lambda plan: plan["step"])
    return plans[len(plans) // 2], statistics.median(measured for _, measured in found)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--isogrid", default="build/isogrid")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--keep")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--free", type=float, default=0.95)
    parser.add_argument("--part", choices=("both", "calibrate", "train"), default="both")
    parser.add_argument("--slots", default="1,2")
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("networks", nargs="*")
    arguments = parser.parse_args()
    if arguments.part != "both" and not arguments.keep:
        sys.exit(f"--part {arguments.part} needs --keep: the folder of the calibrations")
    if "OPENBLAS_CORETYPE" in os.environ:
        sys.exit("OPENBLAS_CORETYPE is set, and changes how fast products are: unset it")
    unknown = [row for row in arguments.networks if row not in networks.ROWS]
    if unknown:
        sys.exit(f"no network {unknown[0]}; there are {', '.join(networks.ROWS)}")
    if arguments.repeat < 1 or not 0 <= arguments.free <= 1:
        sys.exit("--repeat is at least 1, --free from 0 to 1")
    if arguments.hosts and not arguments.inside:
        sys.exit(subprocess.run(["tests/support/with_hosts", str(arguments.hosts), sys.executable, __file__, "--inside", *sys.argv[1:]], check=False).returncode)
    for i in range(arguments.hosts):
        limit(i + 1, arguments.rate)
    print("| network | slots | predicted | measured | off | computation | update | within hosts | exposed |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in arguments.networks or networks.ROWS:
            for slots in [arguments.hosts] if arguments.hosts else [int(n) for n in arguments.slots.split(",")]:
                found = measure(row, slots, arguments, folder)
                if not found:
                    continue
                t, measured = found
                parts = " | ".join(f"{100 * t[part] / t['step']:.0f}%" for part in ("computation", "update", "intra_host", "exposed"))
                print(f"| {row} | {slots} | {1e3 * t['step']:.3g} ms | {1e3 * measured:.3g} ms | {100 * (t['step'] / measured - 1):+.0f}% | {parts} |", flush=True)


if __name__ == "__main__":
    main()
