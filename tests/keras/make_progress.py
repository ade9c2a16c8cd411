"""progress.json: what Keras's Progbar writes to a terminal (verbose 1) and elsewhere
(verbose 2), at given times.

    python make_progress.py
"""

import json

import common

keras = common.keras_on_jax("float32")
from keras.src.utils import progbar  # noqa: E402

START = 1024.0  # so that the first step is drawn, as at any real time
TIMES = {
    # seconds of each step's end; steps that are 0.1 s and more apart are drawn by all
    "seconds": [2.0, 3.0, 4.5, 5.0, 6.25, 7.0, 9.0],
    "milliseconds": [0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25],
    "many": [i / 16384 for i in range(1, 1001)],
    "hours": [3000.0, 7000.0, 11000.0],
    "minutes": [50.0, 130.0, 190.0],
    "one": [0.25],
}
VALUES = {
    "plain": {"accuracy": 0.5, "loss": 1.25},
    "small": {"loss": 0.00012345, "mae": -0.0005},
    # no numbers below -0.001: with verbose 2 alone Keras writes these with an exponent
    "odd": {"loss": float("nan"), "mae": 0.0, "mse": float("inf")},
    "none": {},
}


def run(target, times, values, verbose):
    out = []
    clock = [START]
    progbar.time.time = lambda: clock[0]
    progbar.io_utils.print_msg = lambda message, line_break=True: out.append(message)
    bar = progbar.Progbar(target, verbose=verbose, interval=0.1, stateless_metrics=set())
    bar._dynamic_display = True
    for i, t in enumerate(times):
        clock[0] = START + t
        if verbose == 1:
            bar.update(i + 1, list(values.items()), finalize=False)
    clock[0] = START + times[-1] + 0.5
    bar.target = target or len(times)  # as ProgbarLogger does where the steps were not known
    bar.update(len(times), [*values.items(), *(("val_" + k, v) for k, v in values.items())], finalize=True)
    return out


def main():
    cases = []
    for name, times in TIMES.items():
        for kind, values in VALUES.items():
            for known in (True, False):
                for verbose in (1, 2):
                    if name == "many" and kind != "plain":
                        continue
                    drawn = run(len(times) if known else None, times, values, verbose)
                    drawn = [text.replace("\b", "") for text in drawn]
                    text = {k: repr(v) for k, v in values.items()}
                    cases.append({"times": times if name != "many" else len(times), "name": f"{name}/{kind}",
                                  "known": known, "verbose": verbose, "values": text, "drawn": drawn})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (common.HERE / "progress.json").write_text(
        '{"versions": %s, "cases": [\n%s\n]}\n' % (json.dumps(common.versions()), lines))


if __name__ == "__main__":
    main()
