"""versions/*.keras and versions.json: one network, saved by several releases of Keras 3.

    python make_versions.py      (with each release's python in turn; JAX 0.4.30 and numpy 1 for those before 3.6)

The format of the entries and of the files is that of make_table.py; the file is saved after 2 steps, so that there
is a state of the optimizer to go on from.
"""

import json

import common

keras = common.keras_on_jax("float32")
import make_table
from keras import layers as L
from make_training import hashed

FOLDER = common.HERE / "versions"
LISTING = common.HERE / "versions.json"
BEFORE, STEPS = 2, 5
OPTIONS = {"train": True, "classes": None, "tokens": None}


def network():
    x = keras.Input((6, 6, 2), name="x")
    y = L.Conv2D(4, 3, padding="same", use_bias=False)(x)
    y = L.ReLU(max_value=6)(L.BatchNormalization(epsilon=0.01)(y))
    y = L.Add()([y, L.DepthwiseConv2D(3, padding="same", activation="tanh")(y)])
    y = L.MaxPooling2D()(y)
    s = L.Reshape((9, 4))(y)
    s = L.MultiHeadAttention(2, 3, name="attention")(s, s)
    tower = keras.Sequential([keras.Input((4,), name="i"), L.Dense(5, activation="gelu"),
                              L.LayerNormalization(), L.Dense(4)], name="tower")
    shared = L.Dense(4, activation="silu", name="shared")
    a, b = L.GlobalAveragePooling2D()(y), L.GlobalAveragePooling1D()(s)
    y = L.Concatenate()([tower(a), shared(shared(b)), L.Dropout(0.0)(a)])
    return keras.Model(x, [L.Dense(3, name="kind")(y), L.Dense(1, name="price")(y)], name="net")


def step(net, x, y):
    loss = net.train_on_batch(x, y, return_dict=True)["loss"]
    net.reset_metrics()
    return float(f"{float(loss):.9g}")


def save(net, name):
    net.save(FOLDER / f"{name}.keras")
    make_table.pack(FOLDER / f"{name}.keras")


def main():
    version = keras.__version__
    keras.utils.set_random_seed(3)
    net = network()
    net.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), ["mae", "mse"])
    for v in net.variables:
        if v.name in ("bias", "beta", "moving_mean"):
            v.assign(hashed(len(v.path), tuple(v.shape), 0.3))
    x, y = make_table.data(net, OPTIONS)
    for _ in range(BEFORE):
        step(net, x[0], y)
    save(net, version)
    entry = {**OPTIONS, "y": make_table.numbers(net(x[0], training=False))}
    entry["losses"] = [step(net, x[0], y) for _ in range(STEPS)]
    entry["trained_y"] = make_table.numbers(net(x[0], training=False))
    save(net, f"{version}.trained")
    entries = json.loads(LISTING.read_text()) if LISTING.exists() else {}
    entries[version] = entry
    order = sorted(entries, key=lambda v: [int(part) for part in v.split(".")])
    LISTING.write_text("{\n" + ",\n".join(f"{json.dumps(v)}: {json.dumps(entries[v])}" for v in order) + "\n}\n")
    print(f"versions.json: Keras {version}")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
