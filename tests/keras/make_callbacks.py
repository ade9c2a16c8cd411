"""callbacks.json: what Keras's callbacks do, given the values of each epoch: after
which epoch EarlyStopping ends and whose weights stay, the learning rates of
ReduceLROnPlateau and LearningRateScheduler, the files of CSVLogger, which files
ModelCheckpoint writes.

    python make_callbacks.py

Each case is a real fit() of one step an epoch. A callback in front of the others puts
the given values into the logs and the epoch's number into the bias.
"""

import json
import math
import tempfile
from pathlib import Path

import common
import numpy as np

keras = common.keras_on_jax("float64")
EPOCHS = 16
RATE = 0.5


class Given(keras.callbacks.Callback):
    def __init__(self, values):
        super().__init__()
        self.values = values
        self.epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self.epochs = epoch + 1
        for name, values in self.values.items():
            if values[epoch] is not None:
                logs[name] = float(values[epoch])
        kernel, _ = self.model.get_weights()
        self.model.set_weights([kernel, np.array([float(epoch)])])


class Rates(keras.callbacks.Callback):
    """Those of each epoch, behind the callback that changes them."""

    def __init__(self):
        super().__init__()
        self.logged = []

    def on_epoch_end(self, epoch, logs=None):
        self.logged.append(logs.get("learning_rate"))


def make_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="d")])
    model.compile(optimizer=keras.optimizers.SGD(RATE), loss="mse", metrics=["mae"])
    return model


MODEL = make_model()
X, Y = np.zeros((4, 2)), np.zeros((4, 1))


def fit(values, *callbacks):
    MODEL.optimizer.learning_rate = RATE
    given = Given(values)
    MODEL.fit(X, Y, epochs=EPOCHS, batch_size=4, verbose=0, callbacks=[given, *callbacks])
    return given.epochs


def plain(value):
    """JSON has no NaN and no infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def early_stopping(values, **options):
    callback = keras.callbacks.EarlyStopping(**options)
    epochs = fit({options.get("monitor", "val_loss"): values}, callback)
    return {"epochs": epochs, "bias": float(MODEL.get_weights()[1][0]), "best_epoch": callback.best_epoch,
            "stopped_epoch": callback.stopped_epoch}


def reduce_lr_on_plateau(values, **options):
    rates = Rates()
    fit({options.get("monitor", "val_loss"): values}, keras.callbacks.ReduceLROnPlateau(**options), rates)
    return {"rates": rates.logged, "rate": float(MODEL.optimizer.learning_rate)}


def learning_rate_scheduler():
    rates = Rates()
    fit({}, keras.callbacks.LearningRateScheduler(
        lambda epoch, rate: rate * 0.5 if epoch % 3 == 2 else rate + 0.125 * epoch), rates)
    return {"rates": rates.logged, "rate": float(MODEL.optimizer.learning_rate)}


def csv_logger(values, before=None, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        if before is not None:
            path.write_bytes(before.encode())
        fit(values, keras.callbacks.CSVLogger(str(path), **options))
        return {"text": path.read_bytes().decode()}


def model_checkpoint(values, **options):
    with tempfile.TemporaryDirectory() as folder:
        fit({options.get("monitor", "val_loss"): values},
            keras.callbacks.ModelCheckpoint(folder + "/{epoch:02d}.weights.h5", save_weights_only=True, **options))
        return {"files": sorted(path.name for path in Path(folder).iterdir())}


# ---- the values of the epochs ----

def falling(name, noise):
    generator = common.rng(name)
    line = np.exp(-np.arange(EPOCHS) / 4)
    return [round(float(v), 3) for v in line + noise * generator.standard_normal(EPOCHS)]


NAN, INF = math.nan, math.inf
SEQUENCES = {
    "falls": falling("falls", 0),
    "noise": falling("noise", 0.2),
    "more_noise": falling("more_noise", 1),
    "flat": [1.0] * EPOCHS,
    "rises": [1.0 + e for e in range(EPOCHS)],
    "steps": [5.0, 5.0, 4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0],
    "nan_first": [NAN, 3.0, 2.0] + [1.0] * 13,
    "nan_later": [3.0, 2.0, NAN, NAN, 1.0] + [1.5] * 11,
    "infinite": [INF, INF, 2.0, -INF] + [1.0] * 12,
    "absent": [None] * EPOCHS,
    "absent_first": [None, None, 3.0, 2.0, 4.0, 4.0, None, 4.0] + [5.0] * 8,
}
STOPPING = [
    {},
    {"patience": 2},
    {"patience": 3, "restore_best_weights": True},
    {"patience": 4, "min_delta": 0.3},
    {"patience": 4, "min_delta": -0.3, "restore_best_weights": True},
    {"patience": 3, "mode": "max"},
    {"patience": 3, "mode": "max", "min_delta": 0.5},
    {"patience": 2, "start_from_epoch": 5, "restore_best_weights": True},
    {"patience": 4, "baseline": 2.5, "restore_best_weights": True},
    {"patience": 2, "baseline": 0.0},
    {"patience": 20, "restore_best_weights": True},
    {"patience": 2, "monitor": "mae", "mode": "auto"},
]
PLATEAU = [
    {"patience": 1},
    {"patience": 2, "factor": 0.5},
    {"patience": 0, "factor": 0.5},
    {"patience": 2, "factor": 0.5, "cooldown": 2},
    {"patience": 1, "factor": 0.5, "cooldown": 2},
    {"patience": 1, "factor": 0.1, "min_lr": 0.02},
    {"patience": 2, "factor": 0.5, "min_delta": 0.4},
    {"patience": 2, "factor": 0.5, "mode": "max", "min_delta": 0.0},
    {"patience": 1, "factor": 0.0},
    {"patience": 2, "factor": 0.5, "monitor": "mae"},
]
CHECKPOINTS = [
    {},
    {"save_best_only": True},
    {"save_best_only": True, "mode": "max"},
    {"save_best_only": True, "mode": "min", "initial_value_threshold": 2.5},
    {"save_best_only": True, "mode": "max", "initial_value_threshold": 0.0},
    {"save_best_only": True, "monitor": "mae"},
    {"save_freq": 3},
]
NUMBERS = [0.1, 1e-5, 1e22, 123456789.123, 5e-324, NAN, INF, -INF, -0.0, 1e16, 9007199254740993.0, 0.0001,
           0.00012345, 1 / 3, 2.0, -1234.5]
TABLES = {
    "plain": ({}, {}),
    "separator": ({"val_loss": NUMBERS, "val_mae": NUMBERS[::-1]}, {"separator": ";"}),
    "append_empty": ({}, {"append": True}),
    "append_nothing": ({}, {"append": True, "before": ""}),
    "append": ({"learning_rate": NUMBERS}, {"append": True, "before": "epoch,loss\r\n0,1.5\r\n"}),
    "overwrite": ({}, {"before": "what was there\n"}),
    "quotes": ({"a,b": NUMBERS, 'say "it"': NUMBERS}, {}),
}


def main():
    cases = []

    def add(kind, name, values, options, result):
        cases.append({"kind": kind, "name": name, "options": options, "result": result,
                      "values": {k: [plain(v) for v in vs] for k, vs in values.items()}})

    for name, values in SEQUENCES.items():
        absent = None in values  # then the logs have the model's own mae, not a given one
        for options in STOPPING:
            if absent and options.get("monitor"):
                continue
            add("early_stopping", name, {options.get("monitor", "val_loss"): values}, options,
                early_stopping(values, **options))
        for options in PLATEAU:
            if absent and options.get("monitor"):
                continue
            add("reduce_lr_on_plateau", name, {options.get("monitor", "val_loss"): values}, options,
                reduce_lr_on_plateau(values, **options))
        # Keras compares with a NaN that came first for ever: no number is better then. Here it is never the best.
        for options in CHECKPOINTS if name != "nan_first" else []:
            if absent and options.get("monitor"):
                continue
            add("model_checkpoint", name, {options.get("monitor", "val_loss"): values}, options,
                model_checkpoint(values, **options))
    add("learning_rate_scheduler", "thirds", {}, {}, learning_rate_scheduler())
    for name, (values, options) in TABLES.items():
        values = {"loss": NUMBERS, "mae": NUMBERS[::-1], **values}
        add("csv_logger", name, values, options, csv_logger(values, **options))
    text = json.dumps({"versions": common.versions(), "epochs": EPOCHS, "rate": RATE, "cases": []}, indent=0)[:-3]
    lines = ",\n".join(json.dumps(case, sort_keys=True) for case in cases)
    (common.HERE / "callbacks.json").write_text(text + "\n" + lines + "\n]}\n")


if __name__ == "__main__":
    main()
