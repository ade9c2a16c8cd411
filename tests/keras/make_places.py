"""places.json: where Keras's save_weights puts each variable, for a few small models and all optimizers.

    python make_places.py

Of each case: "groups", the groups below which variables may lie, with their attribute `name`; "tensors", of each
dataset its place, Isogrid's path of the variable (from the names of the groups around it, or of an optimizer's slot)
and its shape. tests/train/keras/test_weight_paths.c builds the same models.
"""

import json
import os
import tempfile

import common

keras = common.keras_on_jax("float32")
import h5py
import numpy as np
from keras import layers as L
from keras import optimizers as O

SLOTS = ("average", "gradient_accumulator", "momentum", "velocity", "velocity_hat", "average_gradient", "accumulator", "norm",
         "accumulated_grad", "accumulated_delta_var", "linear")
RULES = {"SGD": "sgd", "RMSprop": "rmsprop", "Adam": "adam", "AdamW": "adamw", "Adagrad": "adagrad", "Nadam": "nadam", "Lion": "lion",
         "Adamax": "adamax", "Adadelta": "adadelta", "Ftrl": "ftrl", "Lamb": "lamb", "Adafactor": "adafactor",
         "Muon": "muon"}


def slot_path(optimizer, variable, trainable):
    """Isogrid's path of an optimizer's variable."""
    name = variable.name
    if name in ("iteration", "learning_rate"):
        return "optimizer/" + name
    if variable is getattr(optimizer, "_u_product", None):
        return "optimizer/u_product"
    for number, (v, path) in enumerate(trainable):
        for slot, means in ("row_mean", "_r"), ("column_mean", "_c"):
            if variable is getattr(optimizer, means, [None] * len(trainable))[number]:
                return f"optimizer/{RULES[type(optimizer).__name__]}/{path}/{slot}"
        for slot in SLOTS:
            if name == v.path.replace("/", "_") + "_" + slot:
                return f"optimizer/{RULES[type(optimizer).__name__]}/{path}/{slot}"
    raise ValueError(variable.path)


def places(model):
    """Saves the model with every variable filled with its number, and lists the file."""
    optimizer = model.optimizer
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    variables = list(model.variables) + list(optimizer.variables)
    for number, v in enumerate(variables):
        v.assign(np.full(v.shape, number, v.dtype))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.weights.h5")
        model.save_weights(path)
        groups, datasets = {}, []

        def visit(name, thing):
            if isinstance(thing, h5py.Dataset):
                datasets.append((name, int(np.ravel(thing)[0]), list(thing.shape)))
            elif name.endswith("vars"):
                groups[name] = str(thing.attrs["name"])

        with h5py.File(path) as file:
            file.visititems(visit)
    paths, tensors = {}, []
    for place, number, shape in datasets:
        v, chain = variables[number], ""
        if place.startswith("optimizer/"):
            continue
        parts = place.split("/")
        for i in range(1, len(parts) - 1):
            group = "/".join(parts[:i]) + "/vars"
            if group in groups:
                chain += groups[group] + "/"
        paths[id(v)] = chain + v.name
        tensors.append(["/" + place, chain + v.name, shape])
    trainable = [(v, paths[id(v)]) for v in model.trainable_variables]
    for place, number, shape in datasets:
        if place.startswith("optimizer/"):
            tensors.append(["/" + place, slot_path(optimizer, variables[number], trainable), shape])
    return {"groups": sorted([["/" + place, name] for place, name in groups.items()]), "tensors": sorted(tensors)}


def branches():
    x = keras.Input((4,), name="x")
    a = L.Dropout(0.3)(L.Dense(3, activation="relu", name="left")(x))
    b = keras.ops.relu(L.BatchNormalization()(L.Dense(3)(x)))
    return keras.Model(x, L.Dense(2)(L.Add()([a, b])), name="net")


def depths():
    """A long and a short way, and layers of one class at different depths."""
    x, unused = keras.Input((4,), name="x"), keras.Input((5,), name="unused")
    short = L.Dense(3, name="short")(x)
    long = keras.ops.relu(keras.ops.tanh(x))
    long = L.Dense(4, name="long2")(L.Dense(4, name="long1")(long))
    y = L.Concatenate()([long, short])
    y = L.Multiply()([L.Dense(2, name="late")(y), L.Dense(2, name="early")(short)])
    return keras.Model([x, unused], y, name="net")


def chain():
    return keras.Sequential([keras.Input((4,), name="x"), L.Dense(3), L.Dropout(0.2), L.BatchNormalization(center=False),
                             L.Activation("relu"), L.Dense(2, use_bias=False, name="last")], name="mlp")


def nested():
    x = keras.Input((4,), name="x")
    inner = keras.Sequential([keras.Input((4,), name="i"), L.Dense(4), L.Activation("relu"), L.Dense(4)], name="inner")
    i = keras.Input((4,), name="i")
    deepest = keras.Sequential([keras.Input((4,), name="i"), L.Dense(4, name="d")], name="deepest")
    graph = keras.Model(i, L.Add()([deepest(L.Dense(4)(i)), i]), name="graph")
    shared = L.Dense(4, name="shared")
    return keras.Model(x, shared(graph(inner(shared(x)))), name="net")


def shared_block():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    tower = keras.Sequential([keras.Input((4,), name="i"), L.Dense(3), L.Dense(2)], name="tower")
    return keras.Model([a, b], L.Dense(1)(L.Concatenate()([tower(b), tower(a)])), name="net")


def frozen():
    x = keras.Input((4,), name="x")
    a = L.Dense(3, name="fixed", trainable=False)
    bn = L.BatchNormalization(trainable=False)
    return keras.Model(x, L.Dense(2)(bn(a(x))), name="net")


def two_heads():
    x = keras.Input((4,), name="x")
    a, b = L.Dense(2, name="a")(x), L.Dense(3, name="b")(x)
    return keras.Model(x, [a, b], name="net")


def images():
    return keras.Sequential([keras.Input((8, 8, 3), name="x"), L.Conv2D(3, 2), L.Activation("tanh"), L.MaxPooling2D(), L.Activation("elu"),
                             L.LayerNormalization(), L.GlobalAveragePooling2D(), L.Dense(2)], name="images")


def recurrent():
    return keras.Sequential([keras.Input((5, 3), name="x"), L.LSTM(4, return_sequences=True), L.GRU(3, return_sequences=True),
                             L.LSTM(2, use_bias=False, return_sequences=True), L.SimpleRNN(3), L.Dense(2)], name="recurrent")


def wrappers():
    return keras.Sequential([keras.Input((5, 3, 4), name="x"), L.TimeDistributed(L.Conv1D(4, 2)), L.TimeDistributed(L.BatchNormalization()),
                             L.TimeDistributed(L.Flatten()), L.Bidirectional(L.LSTM(3, return_sequences=True)),
                             L.Bidirectional(L.GRU(2), backward_layer=L.GRU(2, go_backwards=True)), L.Dense(2)], name="wrappers")


schedule = O.schedules.CosineDecay(0.1, 10)
CASES = {
    "branches": (branches, O.Adam(name="adam")),
    "depths": (depths, O.SGD(0.1, name="sgd")),
    "chain": (chain, O.RMSprop(momentum=0.9, centered=True, name="rm_sprop")),
    "nested": (nested, O.Adam(amsgrad=True, name="adam")),
    "shared_block": (shared_block, O.SGD(0.1, momentum=0.9, name="sgd")),
    "frozen": (frozen, O.AdamW(gradient_accumulation_steps=2, use_ema=True, name="adam_w")),
    "two_heads": (two_heads, O.Adagrad(initial_accumulator_value=3.0, name="adagrad")),
    "images": (images, O.RMSprop(schedule, name="rm_sprop")),
    "recurrent": (recurrent, O.Adam(name="adam")),
    "wrappers": (wrappers, O.Adam(name="adam")),
    "chain_nadam": (chain, O.Nadam(gradient_accumulation_steps=2, name="nadam")),
    "chain_lion": (chain, O.Lion(name="lion")),
    "chain_adamax": (chain, O.Adamax(name="adamax")),
    "chain_adadelta": (chain, O.Adadelta(name="adadelta")),
    "chain_ftrl": (chain, O.Ftrl(name="ftrl")),
    "images_adafactor": (images, O.Adafactor(name="adafactor")),
    "images_muon": (images, O.Muon(name="muon")),
    "frozen_lamb": (frozen, O.Lamb(gradient_accumulation_steps=2, use_ema=True, name="lamb")),
}

if __name__ == "__main__":
    out = {}
    for name, (build, optimizer) in CASES.items():
        keras.backend.clear_session()
        model = build()
        losses = ["mse", None] if name == "two_heads" else "mse"
        model.compile(optimizer=optimizer, loss=losses)
        out[name] = places(model)
    lines = ",\n".join(f'"{name}": {{\n"groups": [\n' + ",\n".join(map(json.dumps, case["groups"])) + '],\n"tensors": [\n'
                       + ",\n".join(map(json.dumps, case["tensors"])) + "]}" for name, case in out.items())
    (common.HERE / "places.json").write_text("{\n" + lines + "\n}\n")
    print(f"places.json: {len(out)} cases, {os.path.getsize(common.HERE / 'places.json')} bytes")
