"""The networks that tests/bench/run networks measures: their sizes, their data, and Keras's files of them.

    KERAS_BACKEND=jax python networks.py FOLDER NAME...     # writes NAME.keras, and NAME.h5 with x and y, or NAME.bin with tokens

Networks of TOKENS are Isogrid's built-in models, so they have no .keras file."""

import os
import sys
from dataclasses import dataclass


@dataclass
class Network:
    # mlp, dense, convnet, vgg, resnet, bottleneck (ResNet-50), mobilenet, cosmoflow, unet3d (volumes), recurrent, transformer (blocks as in Keras's
    # guides), gpt (GPT-2, tied embeddings, AdamW), llama (rotary positions, RMS norms, gated MLP, AdamW)
    kind: str
    batch: int
    steps: int  # of an epoch
    layers: int = 0
    width: int = 0
    heads: int = 4
    kv_heads: int = 0
    hidden: int = 0
    experts: int = 0  # of each gated MLP, of which a token takes two
    tokens: int = 0
    vocabulary: int = 0  # 0: a row has `features` numbers for each token, and one of ten classes
    features: int = 64

    def shape(self):
        """Of a row of x."""
        if self.tokens:
            return (self.tokens,) if self.vocabulary else (self.tokens, self.features)
        return {"convnet": (28, 28, 1), "vgg": (32, 32, 3), "resnet": (32, 32, 3), "bottleneck": (64, 64, 3), "mobilenet": (32, 32, 3), "cosmoflow": (32, 32, 32, 4),
                "unet3d": (32, 32, 32, 4)}.get(self.kind, (784,))


TOKENS = ("gpt", "llama")  # kinds

NETWORKS = {
    "vit": Network("transformer", 16, 10, layers=4, width=256, tokens=128),
    "gpt": Network("transformer", 16, 10, layers=4, width=256, tokens=128, vocabulary=256),
    "gpt-384": Network("gpt", 12, 6, layers=6, width=384, heads=6, tokens=256, vocabulary=65),
    "gpt-124m": Network("gpt", 4, 5, layers=12, width=768, heads=12, tokens=64, vocabulary=50257),
    "gpt-124m-1k": Network("gpt", 1, 2, layers=12, width=768, heads=12, tokens=1024, vocabulary=50257),
    "llama": Network("llama", 8, 6, layers=6, width=512, heads=8, kv_heads=2, hidden=1408, tokens=256, vocabulary=4096),
    "gpt-4k": Network("gpt", 2, 2, layers=4, width=512, heads=8, tokens=4096, vocabulary=256),
    "moe": Network("llama", 8, 6, layers=4, width=384, heads=6, kv_heads=2, hidden=768, experts=8, tokens=256, vocabulary=4096),
    "vgg": Network("vgg", 64, 10),
    "resnet18": Network("resnet", 64, 5),
    "resnet50": Network("bottleneck", 16, 8),
    "mobilenet": Network("mobilenet", 64, 10),
    "cosmoflow": Network("cosmoflow", 4, 5),
    "unet3d": Network("unet3d", 4, 5),
    "lstm": Network("recurrent", 32, 10, layers=2, width=256, tokens=100),
    "mlp4096": Network("mlp", 256, 8, layers=4, width=4096),
    "mlp2048": Network("mlp", 64, 60, layers=2, width=2048),
    "mlp-32": Network("mlp", 32, 1500, layers=2, width=256),
    "mlp-256": Network("mlp", 256, 200, layers=2, width=256),
    "convnet-64": Network("convnet", 64, 60),
    "convnet-256": Network("convnet", 256, 20),
    "dense-16": Network("dense", 16, 1500, layers=1, width=200),
}


def data(folder, name):
    """x, y of an epoch; y are classes, of a dense network numbers."""
    network = NETWORKS[name]
    if network.kind in TOKENS:
        import numpy as np
        tokens = np.fromfile(f"{folder}/{name}.bin", np.uint16).astype(np.int64)
        rows = network.batch * network.steps
        return tokens[:-1].reshape(rows, -1), tokens[1:].reshape(rows, -1)
    import h5py
    with h5py.File(f"{folder}/{name}.h5") as file:
        return file["x"][:], file["y"][:]


def write_data(folder, name):
    import numpy as np
    network, random = NETWORKS[name], np.random.default_rng(0)
    rows = network.batch * network.steps
    if network.kind in TOKENS:
        random.integers(0, network.vocabulary, rows * network.tokens + 1).astype(np.uint16).tofile(f"{folder}/{name}.bin")
        return
    import h5py
    with h5py.File(f"{folder}/{name}.h5", "w") as file:
        if network.vocabulary:
            file["x"], file["y"] = (random.integers(0, network.vocabulary, (rows, network.tokens), np.int32) for _ in range(2))
        else:
            file["x"] = random.random((rows, *network.shape()), np.float32)
            file["y"] = random.random((rows, 10), np.float32) if network.kind == "dense" else random.integers(0, 10, rows, np.int32)


# ---- in Keras ----
def mlp(L, x, n):
    for i in range(n.layers):
        x = L.Dense(n.width, activation="relu", name=f"d{i}")(x)
    return L.Dense(10, name=f"d{n.layers}")(x)


def dense(L, x, n):
    x = L.Dropout(0.4)(L.Dense(n.width, activation="relu", use_bias=False, name="d0")(x))
    return L.Dense(10, activation="softmax", name="d1")(x)


def convnet(L, x, _):
    for filters, kernel, stride, padding in ((12, 3, 1, "same"), (24, 6, 2, "valid"), (32, 6, 2, "same")):
        x = L.Conv2D(filters, kernel, strides=stride, padding=padding, use_bias=False)(x)
        x = L.ReLU()(L.BatchNormalization(scale=False)(x))
    x = L.Dropout(0.5)(L.Dense(256, activation="relu")(L.GlobalAveragePooling2D()(x)))
    return L.Dense(10)(x)


def convolved(L, x, filters, stride=1, size=3):
    return L.BatchNormalization()(L.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x))


def vgg(L, x, _):
    for stage, filters in enumerate((64, 128, 256)):
        for _ in range(2):
            x = L.ReLU()(convolved(L, x, filters))
        if stage < 2:
            x = L.MaxPooling2D(2)(x)
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


def resnet(L, x, _):
    """ResNet-18 (He et al. 2015) with the first layer for small images: 3x3 without a pool."""
    x = L.ReLU()(convolved(L, x, 64))
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            short = convolved(L, x, filters, stride, 1) if stride == 2 else x
            h = L.ReLU()(convolved(L, x, filters, stride))
            x = L.ReLU()(L.Add()([convolved(L, h, filters), short]))
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


# filters and blocks of each stage
BOTTLENECKS = ((64, 3), (128, 4), (256, 6), (512, 3))


def bottleneck(L, x, _):
    """ResNet-50 (He et al. 2015), the stride of a block in its 3 x 3 convolution."""
    x = L.MaxPooling2D(3, 2, padding="same")(L.ReLU()(convolved(L, x, 64, 2, 7)))
    for stage, (filters, blocks) in enumerate(BOTTLENECKS):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            short = x if block else convolved(L, x, 4 * filters, stride, 1)
            h = L.ReLU()(convolved(L, L.ReLU()(convolved(L, x, filters, 1, 1)), filters, stride))
            x = L.ReLU()(L.Add()([convolved(L, h, 4 * filters, 1, 1), short]))
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


# filters and stride of each depthwise convolution with the 1 x 1 convolution after it
SEPARABLE = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1))


def mobilenet(L, x, _):
    """After MobileNet (Howard et al. 2017, arXiv 1704.04861), for small images and with fewer layers of 512 filters."""
    x = L.ReLU(6)(convolved(L, x, 32))
    for filters, stride in SEPARABLE:
        x = L.ReLU(6)(L.BatchNormalization()(L.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x)))
        x = L.ReLU(6)(convolved(L, x, filters, 1, 1))
    return L.Dense(10)(L.GlobalAveragePooling2D()(x))


def cosmoflow(L, x, _):
    """After Mathuriya et al. 2018 (arXiv 1808.04728), smaller: convolutions of 16 to 128 filters, each with a pool, then dense layers."""
    for filters in (16, 32, 64, 128):
        x = L.MaxPooling3D(2)(L.LeakyReLU(0.3)(L.Conv3D(filters, 3, padding="same")(x)))
    x = L.Flatten()(x)
    for width in (128, 64):
        x = L.LeakyReLU(0.3)(L.Dense(width)(x))
    return L.Dense(10)(x)


def unet3d(L, x, _):
    """After Çiçek et al. 2016 (arXiv 1606.06650), smaller: 16 to 64 filters; one class of each volume."""
    skips = []
    for filters in (16, 32):
        for _ in range(2):
            x = L.Conv3D(filters, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = L.MaxPooling3D(2)(x)
    for _ in range(2):
        x = L.Conv3D(64, 3, padding="same", activation="relu")(x)
    for filters in (32, 16):
        x = L.Concatenate()([L.Conv3DTranspose(filters, 2, strides=2)(x), skips.pop()])
        for _ in range(2):
            x = L.Conv3D(filters, 3, padding="same", activation="relu")(x)
    return L.Dense(10)(L.GlobalAveragePooling3D()(x))


def recurrent(L, x, n):
    for i in range(n.layers):
        x = L.LSTM(n.width, return_sequences=i < n.layers - 1)(x)
    return L.Dense(10)(x)


def transformer(L, x, n):
    x = L.Embedding(n.vocabulary, n.width)(x) if n.vocabulary else L.Dense(n.width)(x)
    for _ in range(n.layers):
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.MultiHeadAttention(n.heads, n.width // n.heads)(h, h, use_causal_mask=n.vocabulary > 0)])
        h = L.LayerNormalization()(x)
        x = L.Add()([x, L.Dense(n.width)(L.Dense(4 * n.width, activation="gelu")(h))])
    x = L.LayerNormalization()(x)
    return L.Dense(n.vocabulary)(x) if n.vocabulary else L.Dense(10)(L.GlobalAveragePooling1D()(x))


def write_model(folder, name):
    import keras
    network = NETWORKS[name]
    x = keras.Input(network.shape(), dtype="int32" if network.vocabulary else "float32")
    y = globals()[network.kind](keras.layers, x, network)
    model = keras.Model(x, y)
    if network.kind == "dense":
        model.compile(keras.optimizers.RMSprop(), keras.losses.MeanSquaredError())
    else:
        model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.save(f"{folder}/{name}.keras")


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "jax")
    for wanted in sys.argv[2:]:
        write_data(sys.argv[1], wanted)
        if NETWORKS[wanted].kind not in TOKENS:
            write_model(sys.argv[1], wanted)
