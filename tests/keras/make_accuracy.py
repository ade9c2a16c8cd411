"""accuracy.json: test accuracy on Fashion-MNIST after 3 epochs of fit(), over 60
seeds, for `convnet` and `dtensor` as the guides have them (dropout on, Keras's
initializers, batch 64, shuffled each epoch, the last 32 rows a batch of their own).

    python make_accuracy.py [--jobs 2] [--seeds 20]

Goes on where it was: runs that accuracy.json holds already are not repeated.
"""

import argparse
import json
import multiprocessing
import statistics

import common
import numpy as np

NETWORKS = ("dtensor", "convnet")
EPOCHS = 3
PATH = common.HERE / "accuracy.json"


def run(job):
    """One seed, in a worker process of one thread."""
    name, seed = job
    keras = common.keras_on_jax("float32")
    from make_training import fashion_mnist, networks
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model, loss, optimizer, batch = networks(keras, kept_dropout=True)[name]()
    model.compile(optimizer=optimizer, loss=loss,
                  metrics=["sparse_categorical_accuracy"])
    x, y = fashion_mnist("train")
    model.fit(x.astype(np.float32), y.astype(np.int32), batch_size=batch,
              epochs=EPOCHS, verbose=0)
    x, y = fashion_mnist("t10k")
    return name, seed, model.evaluate(x.astype(np.float32), y.astype(np.int32),
                                      batch_size=500, verbose=0)[1]


def store(found, versions):
    out = {"versions": versions, "data": "fashion-mnist", "epochs": EPOCHS,
           "batch": 64}
    for name in NETWORKS:
        seeds = sorted(found[name])
        values = [found[name][s] for s in seeds]
        out[name] = {"seeds": seeds, "accuracy": values}
        if len(values) > 1:
            spread = statistics.stdev(values)
            out[name].update(mean=round(statistics.mean(values), 6),
                             stddev=round(spread, 6), minimum=min(values),
                             maximum=max(values),
                             standard_error=round(spread / len(values) ** .5, 6))
    PATH.write_text(json.dumps(out, indent=1) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--seeds", type=int, default=60)
    options = p.parse_args()
    common.keras_on_jax("float32")
    versions = common.versions()
    before = json.loads(PATH.read_text()) if PATH.exists() else {}
    found = {name: dict(zip(before.get(name, {}).get("seeds", []),
                            before.get(name, {}).get("accuracy", [])))
             for name in NETWORKS}
    jobs = [(name, seed) for name in NETWORKS
            for seed in range(1, options.seeds + 1) if seed not in found[name]]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for name, seed, accuracy in pool.imap_unordered(run, jobs):
            found[name][seed] = round(accuracy, 6)
            store(found, versions)
            print(f"{name} seed {seed}: {accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
