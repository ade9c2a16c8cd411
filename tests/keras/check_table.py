"""What Isogrid saved, in real Keras: the models of make_table.py after their training by Isogrid.

    python check_table.py FOLDER [NAME...]

FOLDER holds, of each model of table.json, NAME.keras, the checkpoint NAME.weights.h5 and Isogrid's predictions
NAME.txt (test_keras_table writes them). Of each: Keras loads it without a warning; layers and compile settings are
those of the model that Keras itself saved; predictions are Isogrid's; the optimizer's state is what Keras has after
the same steps; and three more steps of training go the same way. The same for load_weights() of the checkpoint.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import common

keras = common.keras_on_jax("float32")
import make_table
import numpy as np

MORE = 3
bad = []


def check(name, what, good, detail=""):
    if not good:
        bad.append(name)
        print(f"{name}: {what} {detail}")


def near(name, what, a, b, tolerance):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return check(name, what, False, f"has shape {a.shape}, not {b.shape}")
    worst = np.max(np.abs(a - b) / np.maximum(1, np.abs(b)), initial=0)
    check(name, what, worst <= tolerance, f"differs by {worst:.3g}")


def plain(value):
    """A config without what the file need not say again: names of shared objects, seeds, call-time shapes."""
    if isinstance(value, dict):
        out = {k: plain(v) for k, v in value.items() if k not in ("shared_object_id", "build_config", "seed", "name")}
        if "name" in value and value.get("class_name") is None:
            out["name"] = value["name"]
        return out
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def configs(net, prefix=""):
    """The layers of a model and of those within it, by name."""
    out = {}
    for layer in net.layers:
        if isinstance(layer, (keras.Sequential, keras.Model)):
            out.update(configs(layer, f"{prefix}{layer.name}/"))
        elif not (prefix and isinstance(layer, keras.layers.InputLayer)):
            config = plain({**layer.get_config(), "class": type(layer).__name__})
            if "axis" in config:  # a number or a list of one: the same; Keras sorts some
                axes = make_table.listed(config["axis"])
                if isinstance(layer, keras.layers.RMSNormalization):  # Isogrid knows how many dimensions these are, and writes them from the end
                    axes = [axis % len(layer._inbound_nodes[0].input_tensors[0].shape) for axis in axes]
                config["axis"] = sorted(axes)
            out[prefix + layer.name] = config
    return out


def optimizer_config(net):
    config = plain(net.optimizer.get_config())
    config["learning_rate"] = 0 if isinstance(config["learning_rate"], float) else config["learning_rate"]
    return {**config, "class": type(net.optimizer).__name__}


def loss_names(net):
    return [type(f).__name__ if f else None for f in make_table.listed(net._compile_loss._user_loss)]


def keys(net):
    """The dictionaries of inputs and outputs, if there are."""
    config = net.get_config()
    ends = {end: config.get(end) for end in ("input_layers", "output_layers")}
    return {end: layers for end, layers in ends.items() if isinstance(layers, dict)}


def predictions(net, x):
    return np.concatenate([np.ravel(y) for y in make_table.listed(net(make_table.inputs_of(net, x), training=False))])


def train(net, x, y):
    losses = []
    for _ in range(MORE):
        given = make_table.inputs_of(net, x), make_table.targets_of(net, y)
        losses.append(float(net.train_on_batch(*given, return_dict=True)["loss"]))
        net.reset_metrics()
    return losses


def compare(name, theirs, ours, x, y, options):
    """theirs: as Keras saved it after the same steps."""
    near(name, "variables", np.concatenate([np.ravel(v) for v in ours.weights]),
         np.concatenate([np.ravel(v) for v in theirs.weights]), 1e-4)
    if not options["train"]:
        return
    for a, b in zip(ours.optimizer.variables, theirs.optimizer.variables):
        near(name, f"optimizer's {b.path}", a, b, 1e-4)
    check(name, "optimizer's variables", len(ours.optimizer.variables) == len(theirs.optimizer.variables))
    near(name, "losses of further steps", train(ours, x, y), train(theirs, x, y), 2e-4)


def check_model(folder, name, entry):
    options = {key: entry[key] for key in ("train", "classes", "tokens")}
    file = common.HERE / "table" / (f"{name}.trained.keras" if entry["train"] else f"{name}.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, weights = keras.models.load_model(file), keras.models.load_model(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", "When providing `inputs` as a dict")  # so for Keras's own file
        warnings.filterwarnings("ignore", "Layer .* was passed an input with a mask")  # so too
        ours = keras.models.load_model(folder / f"{name}.keras")
        for v in weights.variables:
            v.assign(np.zeros(v.shape, v.dtype) if v.dtype != "uint32" else v)
        weights.load_weights(folder / f"{name}.weights.h5")
    a, b = configs(ours), configs(theirs)
    if any(not isinstance(o, keras.layers.Layer) for o in getattr(theirs, "operations", [])):
        a = {layer: config for layer, config in a.items() if layer in b}  # operations may come back as layers
    check(name, "layers", list(a) == list(b), f"{list(a)} instead of {list(b)}")
    for layer in b:
        check(name, f"layer {layer}:", a.get(layer) == b[layer], f"{a.get(layer)} instead of {b[layer]}")
    check(name, "keys", keys(ours) == keys(theirs), f"{keys(ours)} instead of {keys(theirs)}")
    check(name, "class", type(ours) is type(theirs), type(ours))
    check(name, "optimizer", optimizer_config(ours) == optimizer_config(theirs),
          f"{optimizer_config(ours)} instead of {optimizer_config(theirs)}")
    x, y = make_table.data(ours, options)
    said = np.loadtxt(folder / f"{name}.txt", ndmin=1)
    near(name, "predictions", predictions(ours, x), said, 1e-5)
    near(name, "predictions with the checkpoint", predictions(weights, x), said, 1e-5)
    if entry["train"]:
        near(name, "learning rate", ours.optimizer.learning_rate, theirs.optimizer.learning_rate, 1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = keras.models.load_model(file)
    compare(name, theirs, ours, x, y, options)
    compare(name + " (checkpoint)", again, weights, x, y, options)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    entries = json.loads((common.HERE / "table.json").read_text())
    chosen = sys.argv[2:] or list(entries)
    if not importlib.util.find_spec("keras_hub"):
        print("rotary: not checked, as this Python has no keras_hub")
        chosen = [name for name in chosen if name != "rotary"]
    else:
        import keras_hub  # registers its layers
    for name in chosen:
        keras.backend.clear_session()
        check_model(folder, name, entries[name])
    print(f"{len(chosen)} models, {len(set(bad))} differ")
    sys.exit(bool(bad))
