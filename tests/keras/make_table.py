"""table/*.keras and table.json: real Keras's networks, what they predict, and how 5 training steps go.

    python make_table.py [NAME...]      (all, or some; see README.md for the format)

table/NAME.keras is saved by Keras before training, table/NAME.trained.keras by Keras after 5 steps. Inputs and
targets are not stored: they come from make_training.py's hash of the element's index.
"""

import io
import json
import sys
import zipfile

import common

keras = common.keras_on_jax("float32")
import numpy as np
from keras import initializers as I
from keras import layers as L
from keras import losses as lo
from keras import metrics as M
from keras import optimizers as O
from keras import regularizers as R
from keras.src.applications import convnext, inception_resnet_v2
from make_training import hashed

ROWS, STEPS = 12, 5
FOLDER = common.HERE / "table"
MODELS = {}  # name -> (function, compile settings, options)


def model(optimizer="adam", loss="mse", train=True, classes=None, tokens=None, stored=False, tested=False,
          **settings):
    """train: whether training is the same everywhere (no dropout). classes: targets are labels below it. tokens:
    inputs are integers below it. stored: the zip stays as Keras wrote it; others are packed again, deflated. tested:
    the logs are those of a test before each step, because Keras on JAX forgets the mask for the metrics of training."""
    def add(function):
        MODELS[function.__name__] = (function, {"optimizer": optimizer, "loss": loss, **settings},
                                     {"train": train, "classes": classes, "tokens": tokens, "stored": stored,
                                      "tested": tested})
        return function
    return add


def x_of(shape, name="x", dtype="float32"):
    return keras.Input(shape, name=name, dtype=dtype)


# ---- core layers, activations ----

@model("sgd", stored=True, metrics=["mae"])
def dense():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="relu", name="hidden"), L.Dense(2)], name="mlp")


@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", classes=3, metrics=["accuracy"])
def dense_softmax():
    return keras.Sequential([x_of((4,)), L.Dense(6, activation="tanh", use_bias=False),
                             L.Dense(3, activation="softmax")])


@model(lambda: O.SGD(0.05, momentum=0.9, nesterov=True), lo.SparseCategoricalCrossentropy(from_logits=True), classes=3)
def activations():
    x = x_of((5,))
    y = [L.Dense(3, activation=a)(x) for a in
         ("sigmoid", "tanh", "gelu", "silu", "elu", "softplus", "leaky_relu", "linear", "softmax")]
    return keras.Model(x, L.Dense(3)(L.Concatenate()(y)))


@model(lambda: O.RMSprop(0.01))
def activation_layers():
    x = x_of((5,))
    y = [L.ReLU()(x), L.ReLU(negative_slope=0.1)(x), L.LeakyReLU()(x), L.LeakyReLU(0.05)(x), L.ELU()(x), L.ELU(0.5)(x),
         L.Softmax()(x), L.Activation("tanh")(x), L.Activation("gelu")(x)]
    return keras.Model(x, L.Dense(2)(L.Concatenate()(y)))


@model(lambda: O.RMSprop(0.01, momentum=0.5, centered=True))
def regularized():
    return keras.Sequential([x_of((4,)), L.Dense(4, kernel_regularizer=R.L2(0.1), bias_regularizer=R.L2(0.2),
                                                 activation="relu"), L.Dense(2, kernel_regularizer="l2")])


@model(lambda: O.Adam(0.01, amsgrad=True))
def initializers():
    kinds = [I.Zeros(), I.Ones(), I.Constant(0.3), "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
             "lecun_normal", I.RandomUniform(-1, 1), I.RandomNormal(0.1, 0.2), I.TruncatedNormal(stddev=0.5)]
    x = x_of((3,))
    return keras.Model(x, L.Concatenate()([L.Dense(2, kernel_initializer=k, bias_initializer=I.RandomUniform(-1, 1))(x)
                                           for k in kinds]))


@model("adagrad")
def dense_on_sequences():
    return keras.Sequential([x_of((3, 4)), L.Dense(5, activation="relu"), L.Flatten(), L.Dense(2)])


@model(lambda: O.Adagrad(0.1, initial_accumulator_value=0.5))
def reshape():
    return keras.Sequential([x_of((12,)), L.Rescaling(0.5, offset=-0.25), L.Reshape((3, 4)), L.Dense(2),
                             L.Reshape((6,)), L.Dense(1)])


@model(train=False)
def dropout():
    return keras.Sequential([x_of((6,)), L.Dropout(0.3), L.Dense(4, activation="relu"), L.Dropout(0.0), L.Dense(2)])


@model(lambda: O.Nadam(0.01))
def nadam():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(2)])


@model(lambda: O.Lion(0.002, beta_1=0.8))
def lion():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(2)])


@model(lambda: O.Adamax(0.01), lo.Dice(axis=1), metrics=["cosine_similarity", "msle"])
def adamax():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(3, activation="sigmoid")])


@model(lambda: O.Adadelta(0.5, rho=0.9), lo.LogCosh(), metrics=["hinge"])
def adadelta():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(2)])


@model(lambda: O.Ftrl(0.05, l1_regularization_strength=0.01, beta=0.5),
       lo.BinaryFocalCrossentropy(apply_class_balancing=True, alpha=0.3, gamma=1.5, from_logits=True))
def ftrl():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(2)])


@model(lambda: O.Lamb(0.02, weight_decay=0.01, beta_2=0.99))
def lamb():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(2)])


@model(lambda: O.Adafactor(0.02, weight_decay=0.01, clip_threshold=0.8))
def adafactor():
    return keras.Sequential([x_of((5, 4)), L.EinsumDense("abc,cde->abde", (5, 2, 3), activation="tanh"), L.Flatten(), L.Dense(2)])


@model(lambda: O.Muon(0.02, adam_lr_ratio=0.5), tokens=7)
def muon():
    return keras.Sequential([x_of((4,), dtype="int32"), L.Embedding(7, 5), L.Flatten(), L.Dense(3, activation="tanh"), L.Dense(6), L.Dense(2)])


@model(lambda: O.Muon(0.02, rms_rate=None, adam_weight_decay=None, weight_decay=0.0, nesterov=False, exclude_embeddings=False), tokens=7)
def muon_embedding():
    return keras.Sequential([x_of((4,), dtype="int32"), L.Embedding(7, 5), L.Flatten(), L.Dense(2)])


# ---- images ----

@model(lambda: O.Adam(0.01), "sparse_categorical_crossentropy", classes=3, metrics=["accuracy"], stored=True)
def convnet():
    return keras.Sequential([x_of((8, 8, 1)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(), L.Flatten(),
                             L.Dense(3, activation="softmax")], name="convnet")


@model(lambda: O.Adam(0.01, clipnorm=0.5))
def conv_options():
    return keras.Sequential([x_of((9, 7, 4)), L.Conv2D(4, (3, 2), strides=(2, 1), padding="same", use_bias=False),
                             L.Conv2D(6, 2, dilation_rate=2, activation="tanh"), L.Conv2D(4, 1, groups=2),
                             L.GlobalMaxPooling2D(), L.Dense(2)])


@model(lambda: O.Adam(0.01, global_clipnorm=0.5))
def pooling():
    x = x_of((7, 6, 2))
    y = [L.Flatten()(p(x)) for p in
         (L.MaxPooling2D(), L.MaxPooling2D(3, strides=2, padding="same"), L.MaxPooling2D((2, 3), (1, 2)),
          L.AveragePooling2D(2), L.AveragePooling2D(3, strides=2, padding="same"))]
    y += [L.GlobalAveragePooling2D()(x), L.Flatten()(L.GlobalMaxPooling2D(keepdims=True)(x))]
    return keras.Model(x, L.Dense(2)(L.Concatenate()(y)))


@model(lambda: O.SGD(0.05, clipvalue=0.01))
def batch_norm():
    return keras.Sequential([x_of((5, 5, 2)), L.Conv2D(3, 2, use_bias=False), L.BatchNormalization(), L.ReLU(),
                             L.BatchNormalization(momentum=0.8, epsilon=1e-2, center=False),
                             L.GlobalAveragePooling2D(), L.Dense(2), L.BatchNormalization(scale=False)])


@model(lambda: O.AdamW(0.01, weight_decay=0.1))
def layer_norm():
    return keras.Sequential([x_of((3, 4)), L.LayerNormalization(), L.Dense(4), L.LayerNormalization(epsilon=1e-2),
                             L.LayerNormalization(axis=[1, 2]), L.LayerNormalization(center=False), L.Flatten(),
                             L.LayerNormalization(scale=False), L.Dense(2)])


@model(lambda: O.Adam(O.schedules.ExponentialDecay(0.02, 2, 0.5)), "sparse_categorical_crossentropy", classes=4)
def residual():
    x = x_of((6, 6, 3))
    y = L.Conv2D(4, 3, padding="same")(x)
    for _ in range(2):
        z = L.Conv2D(4, 3, padding="same", use_bias=False)(L.ReLU()(L.BatchNormalization()(y)))
        y = L.Add()([y, z])
    return keras.Model(x, L.Dense(4, activation="softmax")(L.GlobalAveragePooling2D()(y)), name="residual")


# ---- text ----

@model(lambda: O.Adam(O.schedules.CosineDecay(0.0, 4, warmup_target=0.05, warmup_steps=2)), tokens=10)
def embedding():
    return keras.Sequential([x_of((4,), dtype="int32"), L.Embedding(10, 3), L.Flatten(), L.Dense(2)])


# ---- graphs ----

@model(lambda: O.SGD(O.schedules.PiecewiseConstantDecay([2, 4], [0.1, 0.05, 0.01])))
def branches():
    x = x_of((4,))
    a, b = L.Dense(3, activation="relu")(x), L.Dense(3)(x)
    y = L.Multiply()([L.Add()([a, b]), b, a])
    return keras.Model(x, L.Dense(2)(L.Concatenate()([y, x])), name="branches")


@model(lambda: O.Adam(0.01, gradient_accumulation_steps=2))
def shared():
    a, b = x_of((4,), "a"), x_of((4,), "b")
    dense, norm = L.Dense(4, name="shared"), L.LayerNormalization(name="norm")
    y = L.Add()([norm(dense(a)), dense(norm(dense(b)))])
    return keras.Model([a, b], L.Dense(1)(y))


@model(lambda: O.SGD(0.05, momentum=0.9))
def nested():
    x = x_of((4,))
    inner = keras.Sequential([x_of((4,), "i"), L.Dense(4, activation="relu"), L.Dense(3)], name="inner")
    i = x_of((3,), "i")
    deep = keras.Sequential([x_of((3,), "i"), L.Dense(3, name="d")], name="deep")
    graph = keras.Model(i, L.Add()([deep(L.Dense(3)(i)), i]), name="graph")
    return keras.Model(x, L.Dense(2)(graph(inner(x))), name="outer")


@model(lambda: O.Adam(0.02))
def siamese():
    a, b = x_of((5,), "left"), x_of((5,), "right")
    tower = keras.Sequential([x_of((5,), "i"), L.Dense(4, activation="tanh"), L.Dense(3)], name="tower")
    return keras.Model([a, b], L.Dense(1, activation="sigmoid")(L.Multiply()([tower(a), tower(b)])))


@model(lambda: O.Adam(0.01), {"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.25},
       metrics={"a": ["mae"], "b": ["mse"]})
def two_outputs():
    x = x_of((4,))
    y = L.Dense(5, activation="relu")(x)
    return keras.Model(x, [L.Dense(2, name="a")(y), L.Dense(3, name="b")(y)])


@model(lambda: O.RMSprop(0.01), ["mse", "mae"])
def two_in_two_out():
    a, b = x_of((3, 4), "sequence"), x_of((2,), "flat")
    s = L.Flatten()(L.Dense(2)(a))
    y = L.Concatenate()([s, b])
    return keras.Model([a, b], [L.Dense(2)(y), L.Dense(1)(b)])


@model(lambda: O.SGD(0.05), {"p": "mse", "q": "huber"}, metrics={"p": ["mae"], "q": ["mse"]})
def dictionaries():
    """Keys that are not the names of inputs and layers."""
    a, b = x_of((3,), "a"), x_of((2,), "b")
    y = L.Concatenate()([a, b])
    return keras.Model({"v": a, "u": b}, {"q": L.Dense(2, name="d")(y), "p": L.Dense(1, name="e")(b)})


@model(lambda: O.Adam(0.01))
def nested_twice_called():
    x = x_of((4,))
    i = x_of((4,), "i")
    block = keras.Model(i, L.Add()([L.Dense(4, activation="relu")(i), i]), name="block")
    return keras.Model(x, L.Dense(2)(block(block(x))))


@model(lambda: O.Adam(0.02))
def nested_two_ends():
    """A model within, with two inputs and two outputs."""
    i, j = x_of((3,), "i"), x_of((2,), "j")
    both = L.Concatenate()([L.Dense(2)(i), j])
    block = keras.Model([i, j], [L.Dense(3, name="p")(both), L.Dense(2, name="q")(both)], name="block")
    a, b = x_of((3,), "a"), x_of((2,), "b")
    p, q = block([a, b])
    return keras.Model([a, b], L.Concatenate()([p, q]))


@model(lambda: O.Adam(0.02))
def frozen():
    x = x_of((5,))
    y = L.Dense(4, trainable=False, name="fixed")(x)
    y = L.BatchNormalization(trainable=False)(y)
    return keras.Model(x, L.Dense(2)(y))


@model(lambda: O.AdamW(0.01))
def dense_chain_functional():
    x = x_of((4,), "features")
    return keras.Model(x, L.Dense(2, name="out")(L.Dense(3, activation="elu", name="mid")(x)), name="chain")


@model(lambda: O.Adam(0.01), lo.BinaryCrossentropy(from_logits=True, label_smoothing=0.1))
def binary():
    return keras.Sequential([x_of((4,)), L.Dense(3, activation="relu"), L.Dense(1)])


@model(lambda: O.Adam(0.01), lo.Huber())
def huber():
    return keras.Sequential([x_of((4,)), L.Dense(3, activation="silu"), L.Dense(2)])


# ---- further layers ----

@model(lambda: O.Adam(0.01))
def conv1d():
    return keras.Sequential([x_of((9, 4)), L.Conv1D(4, 3, padding="causal", activation="relu"),
                             L.Conv1D(6, 2, strides=2, padding="same", use_bias=False),
                             L.Conv1D(4, 2, dilation_rate=2, groups=2), L.GlobalAveragePooling1D(), L.Dense(2)])


@model(lambda: O.RMSprop(0.01))
def pooling1d():
    x = x_of((7, 3))
    y = [L.Flatten()(p(x)) for p in
         (L.MaxPooling1D(), L.MaxPooling1D(3, strides=2, padding="same"), L.AveragePooling1D(2),
          L.AveragePooling1D(3, strides=1, padding="same"))]
    y += [L.GlobalAveragePooling1D()(x), L.GlobalMaxPooling1D()(x), L.Flatten()(L.GlobalMaxPooling1D(keepdims=True)(x))]
    return keras.Model(x, L.Dense(2)(L.Concatenate()(y)))


@model(lambda: O.SGD(0.05, momentum=0.9))
def padding_and_cropping():
    return keras.Sequential([x_of((6, 5, 2)), L.ZeroPadding2D(), L.ZeroPadding2D((1, 2)), L.Conv2D(3, 3),
                             L.ZeroPadding2D(((0, 1), (2, 0))), L.Cropping2D(1), L.Cropping2D(((1, 0), (0, 2))),
                             L.GlobalAveragePooling2D(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def depthwise():
    return keras.Sequential([x_of((7, 6, 3)), L.DepthwiseConv2D(3, padding="same", activation="relu"),
                             L.DepthwiseConv2D((2, 1), depth_multiplier=2, use_bias=False),
                             L.DepthwiseConv2D(2, strides=2), L.GlobalAveragePooling2D(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def transposed():
    x = x_of((7, 6, 3))
    y = L.Conv2D(4, 3, strides=2, padding="same", activation="tanh")(x)
    y = L.Conv2DTranspose(4, (2, 3), strides=2, padding="same", activation="relu")(y)
    y = L.Concatenate()([L.Cropping2D(((0, 1), (0, 0)))(y), x])
    y = L.Conv2DTranspose(3, 3, strides=(2, 3), output_padding=(0, 1), use_bias=False)(y)
    y = L.Conv2DTranspose(3, 2, dilation_rate=2, padding="same")(y)
    return keras.Model(x, L.Dense(2)(L.GlobalAveragePooling2D()(y)), name="transposed")


@model(lambda: O.Adam(0.01))
def transposed_steps():
    return keras.Sequential([x_of((5, 4)), L.Conv1DTranspose(4, 3, strides=2, padding="same", activation="relu"),
                             L.Conv1DTranspose(3, 2, strides=3, output_padding=1, use_bias=False),
                             L.Conv1DTranspose(4, 3, dilation_rate=2), L.GlobalAveragePooling1D(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def volumes():
    x = x_of((4, 6, 5, 2))
    a = L.Conv3D(3, 3, padding="same", activation="tanh")(x)
    y = L.MaxPooling3D(2, padding="same")(a)
    y = L.Conv3D(4, (2, 3, 1), padding="same", use_bias=False)(y)
    y = L.Conv3DTranspose(3, 2, strides=2, activation="relu")(y)
    y = L.Concatenate()([L.Cropping3D(((0, 0), (0, 0), (0, 1)))(y), a])
    y = L.Conv3D(4, 2, strides=(1, 2, 1), groups=2)(y)
    y = L.AveragePooling3D((2, 1, 2), strides=1, padding="same")(L.ZeroPadding3D((1, 0, 2))(y))
    y = L.Concatenate()([L.GlobalAveragePooling3D()(y), L.GlobalMaxPooling3D()(y)])
    return keras.Model(x, L.Dense(2)(y), name="volumes")


@model(lambda: O.SGD(0.05, momentum=0.9))
def volumes_in_a_row():
    return keras.Sequential([x_of((3, 4, 3, 2)), L.UpSampling3D((1, 2, 1)), L.Cropping3D(), L.ZeroPadding3D(),
                             L.Conv3D(3, 3, dilation_rate=(1, 2, 1), kernel_initializer="he_normal"), L.UpSampling3D(),
                             L.Conv3DTranspose(2, (1, 3, 2), strides=(1, 1, 2), padding="same", output_padding=0),
                             L.MaxPooling3D((1, 2, 2), strides=(1, 1, 2)), L.AveragePooling3D((1, 2, 1)),
                             L.GlobalMaxPooling3D(keepdims=True), L.Flatten(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def separable():
    return keras.Sequential([x_of((7, 6, 3)), L.SeparableConv2D(4, 3, padding="same", activation="relu"),
                             L.SeparableConv2D(5, 2, strides=2, depth_multiplier=2, use_bias=False),
                             L.GlobalAveragePooling2D(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def upsampling():
    return keras.Sequential([x_of((3, 4, 2)), L.Conv2D(3, 2, padding="same"), L.UpSampling2D(),
                             L.Conv2D(2, 3, padding="same"), L.UpSampling2D((1, 3)),
                             L.UpSampling2D(2, interpolation="bilinear"), L.Conv2D(1, 1)])


@model(lambda: O.Adam(0.01), "sparse_categorical_crossentropy", classes=3)
def unet():
    x = x_of((8, 8, 1))
    a = L.Conv2D(3, 3, padding="same", activation="relu")(x)
    b = L.Conv2D(4, 3, padding="same", activation="relu")(L.MaxPooling2D()(a))
    c = L.Concatenate()([L.UpSampling2D()(b), a])
    return keras.Model(x, L.Softmax()(L.Conv2D(3, 1)(c)), name="unet")


# Biases before a normalisation have no gradient but rounding, which Adam would scale up: SGD.
@model(lambda: O.SGD(0.05, momentum=0.9))
def group_norm():
    return keras.Sequential([x_of((4, 5, 6)), L.GroupNormalization(3), L.Conv2D(4, 2), L.GroupNormalization(2, epsilon=1e-2),
                             L.GroupNormalization(4, center=False), L.GroupNormalization(-1, scale=False), L.Flatten(),
                             L.Dense(2)])


@model(lambda: O.Adam(0.01))
def prelu():
    return keras.Sequential([x_of((4, 3, 2)), L.PReLU(alpha_initializer=I.RandomUniform(0, 0.5)),
                             L.PReLU(shared_axes=[1, 2], alpha_initializer=I.Constant(0.2)), L.Flatten(),
                             L.Dense(3), L.PReLU(alpha_initializer=I.Constant(0.1)), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def permute():
    return keras.Sequential([x_of((3, 4, 2)), L.Permute((2, 1, 3)), L.Conv2D(3, 2), L.Permute((3, 1, 2)),
                             L.Dense(3), L.Softmax(axis=1), L.Softmax(axis=-2), L.Flatten(), L.Dense(1)])


@model(lambda: O.Adam(0.01))
def merges():
    x = x_of((4,))
    a, b, c = (L.Dense(3)(x) for _ in range(3))
    y = [L.Subtract()([a, b]), L.Average()([a, b, c]), L.Maximum()([a, b, c]), L.Minimum()([b, c]),
         L.Add()([a, b, c]), L.Multiply()([a, c])]
    return keras.Model(x, L.Dense(2)(L.Concatenate(axis=1)(y)))


@model(train=False)
def noise():
    return keras.Sequential([x_of((6,)), L.GaussianNoise(0.2), L.Dense(4, activation="relu"), L.Dropout(0.5), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def attention():
    x = x_of((5, 4))
    y = L.MultiHeadAttention(2, 3, name="attention")(x, x)
    return keras.Model(x, L.Dense(2)(L.GlobalAveragePooling1D()(y)))


@model(lambda: O.Adam(0.01))
def attention_options():
    x, z = x_of((4, 6), "x"), x_of((3, 5), "z")
    y = L.MultiHeadAttention(2, 3, use_bias=False, output_shape=7)(x, z)
    y = L.MultiHeadAttention(3, 2)(y, y, y, use_causal_mask=True)
    y = L.MultiHeadAttention(1, 4, kernel_regularizer=R.L2(0.01))(y, z, L.Dense(3)(z))
    return keras.Model([x, z], L.Dense(2)(L.Flatten()(y)))


@model(lambda: O.AdamW(0.01, weight_decay=0.01), "sparse_categorical_crossentropy", tokens=12, classes=12)
def transformer():
    x = x_of((6,), dtype="int32")
    y = L.Embedding(12, 8)(x)
    for i in range(2):
        z = L.LayerNormalization()(y)
        y = L.Add()([y, L.MultiHeadAttention(2, 4, name=f"attention_{i}")(z, z, use_causal_mask=True)])
        z = L.Dense(12, activation="gelu")(L.LayerNormalization()(y))
        y = L.Add()([y, L.Dense(8)(z)])
    return keras.Model(x, L.Dense(12, activation="softmax")(L.LayerNormalization()(y)), name="transformer")


@model(lambda: O.Adam(0.01))
def rms_norm():
    return keras.Sequential([x_of((3, 4)), L.RMSNormalization(), L.Dense(5), L.RMSNormalization(epsilon=1e-2),
                             L.RMSNormalization(axis=[1, 2]), L.RMSNormalization(axis=-1), L.Flatten(),
                             L.RMSNormalization(), L.Dense(2)])


# The gradient of a bias of keys is 0 but for rounding, since it changes all scores of a query alike, and Adam would scale that up: SGD.
@model(lambda: O.SGD(0.05, momentum=0.9))
def grouped_attention():
    x, z = x_of((4, 6), "x"), x_of((3, 6), "z")
    y = L.GroupQueryAttention(3, 4, 2, use_bias=False)(x, z)
    y = L.GroupQueryAttention(2, 3, 1, use_gate=True)(y, y, y, use_causal_mask=True)
    y = L.GroupQueryAttention(4, 2, 2, kernel_regularizer=R.L2(0.01))(y, value=z, key=L.Dense(6)(z))
    y = L.GroupQueryAttention(2, 6, 3, sliding_window=2, name="near")(y, y)
    return keras.Model([x, z], L.Dense(2)(L.Flatten()(y)))


# Some gradients are so small that Adam would scale up their rounding: SGD.
@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", tokens=12, classes=12)
def language():
    """The blocks of Llama and Mistral, without rotary positions. Embeddings are large: the gradient of a small row would be all rounding."""
    x = x_of((6,), dtype="int32")
    y = L.Embedding(12, 8, embeddings_initializer=I.RandomNormal(stddev=1))(x)
    for i in range(2):
        z = L.RMSNormalization()(y)
        z = L.GroupQueryAttention(2, 4, 2, use_bias=False, name=f"attention_{i}")(z, z, use_causal_mask=True)
        y = L.Add()([y, z])
        z = L.RMSNormalization()(y)
        z = L.Multiply()([L.Dense(12, activation="silu", use_bias=False)(z), L.Dense(12, use_bias=False)(z)])
        y = L.Add()([y, L.Dense(8, use_bias=False)(z)])
    return keras.Model(x, L.Dense(12, activation="softmax")(L.RMSNormalization()(y)), name="language")


# As language.
@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", tokens=12, classes=12)
def rotary():
    """Needs keras_hub: make_embeddings.py says how to install it."""
    import keras_hub
    x = x_of((6,), dtype="int32")
    y = L.Embedding(12, 8)(x)
    z = keras_hub.layers.RotaryEmbedding(max_wavelength=100)(y)
    z = L.GroupQueryAttention(4, 2, 1, use_bias=False)(z, y, key=z, use_causal_mask=True)
    y = L.Reshape((2, 6, 4))(L.Add()([y, z]))
    y = keras_hub.layers.RotaryEmbedding(scaling_factor=2.5, sequence_axis=2, name="turned")(y)
    return keras.Model(x, L.Dense(12, activation="softmax")(L.Reshape((6, 8))(y)), name="rotary")


@model(lambda: O.Adam(0.01))
def recurrent():
    sequence = x_of((5, 4))
    y = L.LSTM(6, return_sequences=True)(sequence)
    z = L.GRU(3, go_backwards=True, recurrent_initializer=I.GlorotUniform(), name="reader")(y)
    y = L.LSTM(3, activation="relu", recurrent_activation="hard_sigmoid", use_bias=False)(y)
    x = L.SimpleRNN(4, return_sequences=True, kernel_regularizer=R.L2(0.01), recurrent_regularizer=R.L1(0.01))(sequence)
    x = L.SimpleRNN(3, activation="sigmoid")(x, initial_state=y)
    x = L.Reshape((3, 1))(x)
    x = L.LSTM(3, unit_forget_bias=False, bias_initializer=I.Constant(0.1))(x, initial_state=[y, z])
    return keras.Model(sequence, L.Dense(2)(L.Concatenate()([x, y, z])), name="recurrent")


@model(lambda: O.SGD(0.1))
def film():
    """Layers that change images, with ranges of one number; recurrent convolutions, cells."""
    image = x_of((8, 5, 2))
    y = L.RandomTranslation((0.25, 0.25), (-0.5, -0.5), fill_mode="wrap")(image)
    y = L.RandomRotation((0.125, 0.125), fill_mode="constant", fill_value=0.5)(y)
    y = L.RandomZoom((-0.25, -0.25), interpolation="bilinear", fill_mode="nearest")(y)
    y = L.RandomContrast((-0.5, 0.5), value_range=(-2, 2))(y)
    y = L.RandomBrightness((0.25, 0.25), value_range=(-2, 2))(y)
    y = L.RandomInvert((1.0, 1.0), value_range=(0, 1))(y)
    y = L.RandomErasing((0.0, 0.0), fill_value=1.0)(y)
    y = L.RandomShear(0.0, 0.0)(L.RandomCrop(8, 5)(y))
    steps = L.Reshape((2, 4, 5, 2))(y)
    y = L.ConvLSTM2D(3, (3, 2), strides=(2, 1), padding="same", return_sequences=True, name="reader")(steps)
    y, h, c = L.ConvLSTM2D(2, 2, activation="relu", recurrent_activation="hard_sigmoid", go_backwards=True,
                           return_sequences=True, return_state=True, kernel_regularizer=R.L2(0.01))(y)
    y = L.ConvLSTM2D(2, 1, use_bias=False, return_sequences=True)(y, initial_state=[h, c])
    y = L.ConvLSTM1D(2, 2, unit_forget_bias=False)(L.Reshape((2, 4, 2))(y))
    y = L.RNN(L.GRUCell(3, use_bias=False), return_sequences=True, go_backwards=True)(y)
    y, h, c = L.RNN(L.LSTMCell(2, name="inner"), return_state=True, name="outer")(y)
    y = L.RNN(L.SimpleRNNCell(2))(L.Reshape((2, 1))(y), initial_state=h)
    return keras.Model(image, L.Dense(2)(L.Concatenate()([y, c])), name="film")


@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", tokens=12, classes=12)
def characters():
    return keras.Sequential([x_of((6,), dtype="int32"), L.Embedding(12, 8), L.GRU(7, return_sequences=True),
                             L.GRU(5, return_sequences=True, activation="linear", use_bias=False),
                             L.Dense(12, activation="softmax")], name="characters")


@model(lambda: O.Adam(0.01))
def both_ways():
    """Bidirectional: each merge_mode, a backward layer of its own, results that are a list, states in and out."""
    x = x_of((5, 4))
    y = L.Bidirectional(L.LSTM(3, return_sequences=True))(x)
    y = L.Bidirectional(L.GRU(4, return_sequences=True, name="reader"), merge_mode="sum",
                        backward_layer=L.GRU(4, activation="relu", return_sequences=True, go_backwards=True))(y)
    y = L.GRU(3, go_backwards=True, return_sequences=True)(y)
    a, h, c, backward_h, backward_c = L.Bidirectional(L.LSTM(3, return_state=True), merge_mode="ave", name="ends")(y)
    b = L.Bidirectional(L.LSTM(3, kernel_regularizer=R.L2(0.01)), merge_mode="mul")(y, initial_state=[h, c, backward_h, backward_c])
    c, d = L.Bidirectional(L.SimpleRNN(2), merge_mode=None)(y)
    return keras.Model(x, L.Dense(2)(L.Concatenate()([a, b, c, d])), name="both_ways")


@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", tokens=12, classes=12)
def translation():
    """An encoder whose last states are the first ones of a decoder, as in Keras's guide; the decoder reads the same words."""
    words = x_of((6,), dtype="int32")
    _, h, c = L.LSTM(7, return_state=True, name="encoder")(L.Embedding(12, 5)(words))
    y, *_ = L.LSTM(7, return_sequences=True, return_state=True, name="decoder")(L.Embedding(12, 5)(words), initial_state=[h, c])
    return keras.Model(words, L.TimeDistributed(L.Dense(12, activation="softmax"))(y), name="translation")


@model(lambda: O.SGD(0.05, momentum=0.9))
def frames():
    """A convolution for each of the images of a sequence."""
    x = x_of((3, 6, 5, 2))
    y = L.TimeDistributed(L.Conv2D(4, 3, use_bias=False, name="see"), name="each")(x)
    y = L.TimeDistributed(L.BatchNormalization())(y)
    y = L.TimeDistributed(L.MaxPooling2D(2))(L.TimeDistributed(L.Activation("relu"))(y))
    y = L.TimeDistributed(L.Dense(3, trainable=False))(L.TimeDistributed(L.Flatten())(y))
    y = L.Bidirectional(L.GRU(3))(y)
    return keras.Model(x, L.Dense(2)(y), name="frames")


@model(train=False)
def dropped_features():
    return keras.Sequential([x_of((5, 4)), L.LSTM(6, dropout=0.3, return_sequences=True), L.GRU(5, dropout=0.2),
                             L.Dense(2)])


@model(lambda: O.Adam(0.01), "sparse_categorical_crossentropy", classes=5)
def mobile():
    x = x_of((8, 8, 3))
    y = L.Conv2D(4, 3, strides=2, padding="same", use_bias=False)(x)
    y = L.ReLU(max_value=6)(L.BatchNormalization()(y))
    z = L.Conv2D(8, 1, use_bias=False)(y)
    z = L.DepthwiseConv2D(3, padding="same", use_bias=False)(L.ReLU(max_value=6)(L.BatchNormalization()(z)))
    z = L.Conv2D(4, 1, use_bias=False)(L.ReLU(max_value=6)(L.BatchNormalization()(z)))
    y = L.Add()([y, L.BatchNormalization()(z)])
    return keras.Model(x, L.Dense(5, activation="softmax")(L.GlobalAveragePooling2D()(y)), name="mobile")


@model(lambda: O.Adam(0.01))
def autoencoder():
    encoder = keras.Sequential([x_of((6, 6, 1), "e"), L.Conv2D(3, 3, strides=2, padding="same", activation="relu"),
                                L.Flatten(), L.Dense(4)], name="encoder")
    decoder = keras.Sequential([x_of((4,), "d"), L.Dense(27, activation="relu"), L.Reshape((3, 3, 3)), L.UpSampling2D(),
                                L.Conv2D(1, 3, padding="same", activation="sigmoid")], name="decoder")
    x = x_of((6, 6, 1))
    return keras.Model(x, decoder(encoder(x)), name="autoencoder")


@model(lambda: O.RMSprop(0.01, rho=0.8, momentum=0.3), lo.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1))
def categorical():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="softplus"), L.Dense(3)])


@model(lambda: O.SGD(0.05, momentum=0.9))
def normalization_axes():
    return keras.Sequential([x_of((3, 4, 2)), L.BatchNormalization(axis=1), L.BatchNormalization(axis=-2),
                             L.LayerNormalization(axis=1), L.LayerNormalization(axis=[1, 3]), L.Flatten(), L.Dense(2)])


@model(lambda: O.Adam(0.01))
def normalization():
    """Statistics that adapt() found, and given ones."""
    x = x_of((3, 4))
    adapted = [L.Normalization(), L.Normalization(axis=None), L.Normalization(axis=1, invert=True),
               L.Normalization(axis=(1, 2), name="all")]
    for i, layer in enumerate(adapted):
        layer.adapt(2 * hashed(i, (20, 3, 4), 1.0) + 0.25 * i)
    y = [layer(x) for layer in adapted]
    y += [L.Normalization(mean=0.5, variance=2.0)(x), L.Normalization(mean=[1.0, 2.0, 0.0, 3.0], variance=[1.0, 0.5, 2.0, 4.0])(x),
          L.Normalization(axis=(1, 2), mean=[[0.5], [-1.0], [0.25]], variance=[[1.0], [3.0], [0.1]], invert=True)(x),
          L.Normalization(axis=None, mean=4e9, variance=1.6e19)(x)]
    y = [adapted[0](L.Dense(4)(y[0]))] + y  # once more
    return keras.Model(x, L.Dense(2)(L.Flatten()(L.Concatenate()(y))))


@model(lambda: O.SGD(0.05))
def small_layers():
    """Layers without weights, and penalties for what layers put out."""
    x, image = x_of((6, 4), "x"), x_of((5, 6, 2), "image")
    y = L.Identity(name="same")(L.Dense(3, activity_regularizer=R.L2(0.1))(x))
    y = L.UpSampling1D()(L.Cropping1D((1, 2))(L.ZeroPadding1D((0, 1))(L.ZeroPadding1D()(y))))
    y = L.UnitNormalization()(L.Conv1D(3, 2, strides=2, activity_regularizer="l1")(y))
    y = L.LSTM(3, return_state=True, activity_regularizer=R.L1L2(0.02, 0.03))(y)[1]
    y = L.UnitNormalization(axis=(1, 2))(L.RepeatVector(3)(L.ActivityRegularization(0.01, 0.02)(y)))
    z = L.CenterCrop(4, 3)(L.Conv2D(3, 2, padding="same", activity_regularizer=R.L1(0.05))(image))
    z = L.UpSampling1D(3)(L.Reshape((4, 9))(z))
    return keras.Model([x, image], L.Dense(2)(L.Concatenate()([L.Flatten()(y), L.Flatten()(z)])))


@model(lambda: O.SGD(0.05, momentum=0.9))
def products():
    """EinsumDense by the equations of attention, Dot, convolutions of the channels of sequences."""
    x = x_of((4, 6))
    q = L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de", kernel_regularizer=R.L2(0.01), name="query")(x)
    q = L.EinsumDense("abcd,cde->abe", output_shape=(None, 6), name="joined")(q)
    k = L.EinsumDense("...x,xy->...y", 6, bias_axes="y", activation="tanh")(x)
    y = L.EinsumDense("abc,dc->abd", output_shape=(4, 6), name="turned")(x)
    z = L.Dot((2, -1), normalize=True)([y, k])
    z = L.Dot(1)([z, L.DepthwiseConv1D(2, padding="same", depth_multiplier=2, activation="relu")(y)])
    z = L.SeparableConv1D(5, 3, padding="same", use_bias=False)(L.DepthwiseConv1D(2, strides=2, use_bias=False)(z))
    z = L.EinsumDense("abc,db->acd", (5, 3))(z)
    return keras.Model(x, L.Dense(2)(L.Concatenate()([L.Flatten()(z), L.GlobalAveragePooling1D()(q), L.Dot(-1)([L.Flatten()(y), L.Flatten()(k)])])))


@model(lambda: O.SGD(0.05, momentum=0.9))
def adaptive_pools():
    x, z, v = x_of((7, 3), "x"), x_of((5, 6, 2), "z"), x_of((3, 4, 5, 2), "v")
    y = [L.AdaptiveAveragePooling1D(3)(x), L.AdaptiveMaxPooling1D(2)(x), L.AdaptiveAveragePooling2D(3)(z),
         L.AdaptiveMaxPooling2D((2, 4))(z), L.AdaptiveAveragePooling3D((2, 3, 2))(v), L.AdaptiveMaxPooling3D(2)(v)]
    return keras.Model([x, z, v], L.Dense(2)(L.Concatenate()([L.Flatten()(each) for each in y])))


@model(lambda: O.SGD(0.05), tokens=6)
def plain_attention():
    """Attention and AdditiveAttention, with masks and without; weights as a result; activations of all kinds."""
    x, z = x_of((5,), "x", "int32"), x_of((4,), "z", "int32")
    a, b = L.Embedding(6, 4, mask_zero=True)(x), L.Embedding(6, 4)(z)
    y = [L.Attention(use_scale=True)([a, b]), L.Attention(score_mode="concat", use_scale=True)([a, a], use_causal_mask=True),
         L.AdditiveAttention()([a, b, L.Dense(4, activation="tanh_shrink")(b)]), L.AdditiveAttention(use_scale=False)([b, a])]
    out, weights = L.Attention()([b, b], return_attention_scores=True, use_causal_mask=True)
    kinds = ("celu", "hard_shrink", "hard_tanh", "soft_shrink", "sparse_plus", "sparse_sigmoid", "squareplus")
    y = [L.Dense(2, activation=kind)(v) for kind, v in zip(kinds, y + [out, weights])]
    y = [L.GlobalMaxPooling1D()(v) for v in y] + [L.GlobalAveragePooling1D()(L.Attention(name="own")([a, a]))]
    return keras.Model([x, z], L.Dense(2)(L.Concatenate()(y)))


@model(train=False)
def dropped_channels():
    x, z, v = x_of((3, 4), "x"), x_of((3, 2, 4), "z"), x_of((2, 2, 2, 3), "v")
    y = [L.SpatialDropout1D(0.3)(x), L.SpatialDropout2D(0.2)(z), L.SpatialDropout3D(0.1)(v), L.GaussianDropout(0.4)(x),
         L.AlphaDropout(0.3)(x), L.AlphaDropout(0.2, noise_shape=(None, 1, 4))(x)]
    return keras.Model([x, z, v], L.Dense(2)(L.Concatenate()([L.Flatten()(each) for each in y])))


@model(lambda: O.Adam(0.01))
def of_applications():
    """The layers that keras.applications defines for itself."""
    y = L.Conv2D(5, 3, padding="same")(x := x_of((4, 4, 3)))
    z = convnext.LayerScale(0.5, 5)(L.Dense(5, activation="gelu")(y))
    y = L.Add()([y, z])
    y = inception_resnet_v2.CustomScaleLayer(0.17)([y, L.Conv2D(5, 1)(y)])
    return keras.Model(x, L.Dense(2)(L.GlobalAveragePooling2D()(y)))


@model(train=False)
def dropped_parts():
    """Keras on JAX does not train StochasticDepth: its random numbers have no seed."""
    return keras.Sequential([x_of((3, 4)), L.Dense(3), L.Dropout(0.3, noise_shape=(None, 1, 3)), convnext.StochasticDepth(0.4),
                             L.Dropout(0.2, noise_shape=(1, 3, None)), L.Dense(2)])


@model(lambda: O.SGD(0.05))
def operations():
    """Functions of keras.ops that no layer does."""
    x = x_of((4,))
    y = L.Dense(3)(x)
    y = 0.1 * y ** 2 - keras.ops.power(keras.ops.sigmoid(y), 2.5)
    z = keras.ops.sqrt(keras.ops.square(y) + 1.0) - keras.ops.absolute(y) / (2.0 + keras.ops.log(y * y + 1.5))
    return keras.Model(x, L.Dense(2)(keras.ops.maximum(-z, y)))


@model(lambda: O.SGD(0.05))
def gelus():
    """By tanh, which is the default of keras.ops.gelu, and exact."""
    x = x_of((4,))
    y = L.Dense(3)(x)
    return keras.Model(x, L.Dense(2)(keras.ops.gelu(y) - keras.ops.gelu(-y) * keras.ops.gelu(y, approximate=False)))


@model(lambda: O.SGD(0.05), lo.BinaryCrossentropy(from_logits=True), classes=None,
       metrics=["accuracy", keras.metrics.BinaryAccuracy(threshold=0.0, name="at_zero"), "MSE",
                keras.metrics.mean_absolute_error])
def metric_names():
    """By name "accuracy" is categorical where more than one value is predicted, whatever the loss."""
    return keras.Sequential([x_of((4,)), L.Dense(3, activation="tanh"), L.Dense(3)])


@model(lambda: O.SGD(0.5), "binary_crossentropy", classes=2,
       metrics=[M.AUC(), M.AUC(num_thresholds=20, curve="PR", summation_method="majoring", name="pr"), M.PrecisionAtRecall(0.5),
                M.BinaryIoU([1], threshold=0.45), M.TruePositives(), M.FalseNegatives(0.45), M.Precision(0.4), M.Recall(0.0)],
       weighted_metrics=[M.AUC(curve="PRGAIN", num_thresholds=9), M.Precision(0.45)])
def metrics_of_curves():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(3, activation="sigmoid"), L.Reshape((3, 1))])


@model(lambda: O.SGD(0.1), "sparse_categorical_crossentropy", classes=3,
       metrics=[M.MeanIoU(3, sparse_y_pred=False), M.IoU(3, [0, 2], sparse_y_pred=False, ignore_class=1, name="two"), "accuracy"])
def metrics_of_classes():
    return keras.Sequential([x_of((4, 2)), L.Dense(5, activation="tanh"), L.Dense(3, activation="softmax")])


@model(lambda: O.SGD(0.1),
       metrics=[M.R2Score(), M.R2Score("variance_weighted_average", name="by_variance"), M.PearsonCorrelation(),
                M.ConcordanceCorrelation(), M.F1Score("weighted", 0.25), M.FBetaScore("micro", 2.0), M.OneHotMeanIoU(3),
                M.Precision(top_k=2, class_id=0)])
def metrics_of_numbers():
    return keras.Sequential([x_of((4,)), L.Dense(5, activation="tanh"), L.Dense(3)])


# ---- integers, which layers take as they come and compute with as real numbers ----

@model(lambda: O.Adam(0.01), "sparse_categorical_crossentropy", tokens=256, classes=3)
def images_of_bytes():
    return keras.Sequential([x_of((6, 6, 3), dtype="uint8"), L.ZeroPadding2D(1), L.UpSampling2D((1, 2)), L.Rescaling(1 / 255),
                             L.Conv2D(4, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(3, activation="softmax")])


@model(lambda: O.SGD(0.002), tokens=9)
def whole_numbers():
    """LayerNormalization and GroupNormalization are left out: Keras cuts what they give back to integers."""
    x, flags = x_of((6,), dtype="int32"), x_of((6,), "flags", dtype="bool")
    row = L.Reshape((3, 2))(x)
    y = [L.Dense(2)(x), L.Flatten()(L.Embedding(9, 2)(x)), L.Flatten()(L.Conv1D(2, 2)(row)), L.BatchNormalization()(x),
         L.Flatten()(L.AveragePooling1D(2)(row)), L.Flatten()(L.MaxPooling1D(2)(row)),
         L.Dense(2)(L.Add()([x, x])), L.Average()([x, L.Dense(6)(flags)]), L.Activation("tanh")(x), L.PReLU()(x), x,
         L.Flatten()(L.MultiHeadAttention(1, 2)(row, row)), L.Dense(2)(flags), L.Maximum()([x, L.Rescaling(0.5, 1)(x)])]
    return keras.Model([x, flags], L.Dense(2)(L.Concatenate()(y)))


@model(lambda: O.Adam(0.01), tokens=256)
def operations_on_bytes():
    x = x_of((4,), dtype="uint8")
    y = [x / 255.0, keras.ops.cast(x, "float32") * 0.01, (x + 3) * 0.5, 1 / (x + 1), keras.ops.tanh(x / 100),
         keras.ops.cast(x / 64, "int32"), x / (x + 7), keras.ops.maximum(x, 100) - 0.5, x * L.Rescaling(0.01)(x)]
    return keras.Model(x, L.Dense(2)(L.Rescaling(0.1)(L.Concatenate()(y))))


@model(lambda: O.Adam(0.01))
def merges_of_ranks():
    """Dimensions are inserted behind the batch, not before it."""
    a, b, c = x_of((4,), "a"), x_of((3, 4), "b"), x_of((2, 3, 4), "c")
    i, j = L.Dense(4)(a), L.Dense(4)(b)
    y = [L.Add()([i, j]), L.Multiply()([j, c, i]), L.Subtract()([i, c]), L.Average()([c, j, i]), L.Maximum()([i, j]),
         L.Minimum()([L.Dense(1)(a), j])]
    return keras.Model([a, b, c], L.Dense(2)(L.Concatenate()([L.Flatten()(each) for each in y])))


# ---- functions of keras.ops with settings, and Python's slices ----

def joined(y):
    """What is left of each tensor for a Dense layer: functions in a row would hide one another's mistakes."""
    rows = [keras.ops.cast(keras.ops.reshape(each, (-1, int(np.prod(each.shape[1:])))), "float32") for each in y]
    return L.Dense(2)(keras.ops.concatenate(rows, axis=-1))


@model(lambda: O.SGD(0.01))
def slices_and_shapes():
    o, x = keras.ops, x_of((4, 6))
    a = L.Dense(6, activation="tanh")(x)
    b = L.Dense(6)(x)
    first, rest = o.split(a, [2], axis=-1)
    y = [a[:, 0], a[:, 1:, ::2], a[..., -1], a[:, None, ::-1, 4:0:-2], o.reshape(b, (-1, 2, 2, 6))[:, 1], first * b[:, :, :2], rest,
         o.transpose(a, (0, 2, 1)), o.expand_dims(a, (1, -1)) + o.ones_like(a)[:, None, ..., None], o.squeeze(a[:, :1], 1),
         o.concatenate([a, b, o.zeros_like(a)], axis=1), o.stack([a, b], axis=2), *o.unstack(b, axis=1), *o.split(b, 3, axis=2),
         o.pad(a, ((0, 0), (1, 2), (0, 1)), constant_values=0.5), o.repeat(a, 2, axis=1), o.tile(b, (1, 2, 1)), o.flip(a, (1, 2)),
         o.roll(b, (1, -2), (1, 2)), o.swapaxes(a, 1, 2), o.moveaxis(a[:, None], (1, 2), (-1, -2)), o.take(a, [[0, -1], [2, 3]], axis=1),
         o.take(np.arange(6, dtype="float32").reshape(3, 2), o.cast(b[:, 0] + 1.5 > 1, "int32"), axis=0)]
    return keras.Model(x, joined(y))


@model(lambda: O.SGD(0.002))
def sums_and_choices():
    o, x = keras.ops, x_of((4, 6))
    a = L.Dense(6, activation="tanh")(x)
    b = L.Dense(6)(x)
    whole = o.cast(b * 2, "int32")
    y = [o.mean(a, axis=(1, 2), keepdims=True), a - o.mean(b, axis=0, keepdims=True), a * (o.sum(o.square(b)) / 100), o.sum(whole, axis=1),
         o.max(a, axis=-1), o.min(b, axis=1), o.prod(a, axis=(1, 2), keepdims=True), o.prod(b[:, :3], axis=1), o.var(a, axis=-1),
         o.std(b, axis=1), o.any(a > 0.5, axis=1), o.all(b > -0.5, axis=2), o.argmax(a, axis=1), o.argmin(b, axis=-1, keepdims=True),
         o.count_nonzero(whole, axis=2), o.cumsum(a, axis=1), o.normalize(b, axis=1), o.logsumexp(a, axis=(1, 2), keepdims=True),
         o.softmax(b, axis=(1, 2)), o.log_softmax(a, axis=1), o.clip(b, -0.5, 0.25), o.where(a > b, a, 0.0),
         o.where(o.logical_and(whole >= 0, o.logical_not(a < 0)), b, -1.0), o.one_hot(whole + 1, 3, axis=1), o.equal(whole, 1),
         o.logical_xor(a > 0, b > 0), o.leaky_relu(b, 0.1), o.elu(b, 0.5), o.selu(b) + o.hard_sigmoid(a) * o.hard_silu(b), o.glu(a, axis=1),
         o.rsqrt(o.square(b) + 1) + o.reciprocal(o.square(a) + 0.5), o.sign(b) * a, a + o.stop_gradient(b), a + np.arange(6, dtype="float32"),
         o.maximum(np.float32([[0.1], [0.2], [-0.1], [0]]), b), o.full_like(a, 2.5) * b]
    return keras.Model(x, joined(y))


@model(lambda: O.SGD(0.01))
def orders_of_functions():
    o, x = keras.ops, x_of((4, 6))
    a = L.Dense(6, activation="tanh")(x)
    b = L.Dense(6)(x)
    values, indices = o.top_k(a, 3)
    one, place = o.top_k(b, 1, sorted=False)
    y = [values * b[:, :, :3], indices, one, place, o.sort(b), o.sort(a, axis=1), o.argsort(a, axis=-2), o.argsort(o.relu(b)),
         o.top_k(o.reshape(a, (-1, 2, 2, 6)), 6)[0] * o.reshape(b, (-1, 2, 2, 6))]
    return keras.Model(x, joined(y))


@model(lambda: O.SGD(0.01))
def products_of_functions():
    o, x = keras.ops, x_of((4, 6))
    a = L.Dense(6, activation="tanh")(x)
    b = L.Dense(6, activation="tanh")(x)
    heads = [o.reshape(each, (-1, 4, 2, 3)) for each in (a, b)]
    table = (np.arange(12, dtype="float32") / 12 - 0.5).reshape(2, 6)
    y = [o.matmul(a, o.transpose(b, (0, 2, 1))), o.matmul(a, table.T), o.matmul(b, table[0]), o.einsum("bij,bkj->bik", a, b),
         o.einsum("bij,bij->bi", a, b), o.einsum("ij,bkj->bki", table, a), o.einsum("bij,bkl->bijkl", a[:, :2], b[:, :2]),
         o.einsum("...j,...j->...", a, b), o.einsum("bqhd,bkhd->bhqk", *heads), o.einsum("bqhd,hde->bqhe", heads[0], table.reshape(2, 3, 2)),
         o.einsum("bij,bkj,bkl->bil", a, b, a), o.dot(b, table.T), o.tensordot(a, np.stack([table.T] * 4), axes=2),
         o.dot_product_attention(*heads, heads[1], is_causal=True), o.dot_product_attention(*heads, heads[0], scale=0.3,
                                                                                            mask=b[:, None, None, :, 0] > 0)]
    return keras.Model(x, joined(y))


@model(lambda: O.SGD(0.02, momentum=0.9), "sparse_categorical_crossentropy", classes=3)
def vision_of_functions():
    """A class token, an attention by hand, windows and a skip connection, as networks outside of Keras have them."""
    o, x = keras.ops, x_of((8, 8, 2))
    y = L.Conv2D(6, 2, strides=2, name="patches")(x)
    windows = o.transpose(o.reshape(y, (-1, 2, 2, 2, 2, 6)), (0, 1, 3, 2, 4, 5))
    windows = o.reshape(windows, (-1, 4, 4, 6))
    scores = o.matmul(windows, o.swapaxes(windows, -1, -2)) * 6 ** -0.5
    windows = L.Dense(6, name="mixed")(o.matmul(o.softmax(scores, axis=-1), windows))
    y = o.concatenate([y, o.reshape(o.transpose(o.reshape(windows, (-1, 2, 2, 2, 2, 6)), (0, 1, 3, 2, 4, 5)), (-1, 4, 4, 6))], axis=-1)
    tokens = L.LayerNormalization()(o.reshape(y, (-1, 16, 12)))
    tokens = o.concatenate([o.mean(tokens, axis=1, keepdims=True), tokens], axis=1)
    q, k, v = o.split(L.Dense(36, name="qkv")(tokens), 3, axis=-1)
    q, k, v = (o.transpose(o.reshape(each, (-1, 17, 2, 6)), (0, 2, 1, 3)) for each in (q, k, v))
    tokens += L.Dense(12)(o.reshape(o.transpose(o.softmax(q @ o.swapaxes(k, 2, 3) / 6 ** 0.5) @ v, (0, 2, 1, 3)), (-1, 17, 12)))
    return keras.Model(x, L.Dense(3, activation="softmax")(tokens[:, 0]))


# ---- masks: 0 is padding, anywhere in a row ----

# As language.
@model(lambda: O.SGD(0.05, momentum=0.9), "sparse_categorical_crossentropy", tokens=2, classes=4, tested=True,
       metrics=["accuracy", M.SparseTopKCategoricalAccuracy(2)])
def masked_words():
    """The loss and the metrics count the steps that are not padding."""
    return keras.Sequential([x_of((4,), dtype="int32"), L.Embedding(2, 5, mask_zero=True),
                             L.Bidirectional(L.LSTM(3, return_sequences=True)), L.LayerNormalization(),
                             L.GRU(4, return_sequences=True, zero_output_for_mask=True), L.Dropout(0.0),
                             L.TimeDistributed(L.Dense(4, activation="softmax"))], name="masked_words")


@model(lambda: O.SGD(0.05, momentum=0.9), tokens=2)
def masked_features():
    """Steps of zeros. What each layer does with its mask, and the masks of merges; the operation of a mask gets the name
    'concatenate', which no layer may have."""
    x, z = x_of((4, 2), "x", "int32"), x_of((4, 1), "z", "int32")
    a, b, free = L.Masking()(x), L.Masking(mask_value=1)(z), L.Dense(3)(x)
    y = L.SimpleRNN(3, return_sequences=True)(a)
    y = L.BatchNormalization()(L.Activation("tanh")(y))
    w = L.GRU(3, return_sequences=True, go_backwards=True)(b)
    merged = [L.Add()([y, w]), L.Multiply()([y, w]), L.Maximum()([y, w, free]), L.Minimum()([w, y]),
              L.Multiply()([y, free]), L.Average()([w, w]), L.Subtract()([w, y]),
              L.Concatenate(name="features")([y, w]), L.Concatenate(axis=1, name="steps")([y, w]),
              L.Concatenate(name="some")([w, free])]
    y = [L.LSTM(2)(m) for m in merged]
    out, h, c = L.LSTM(2, return_state=True, zero_output_for_mask=True)(a)
    one, other = L.Bidirectional(L.GRU(2, return_sequences=True), merge_mode=None)(b)
    y += [out, h, c, L.LSTM(2)(other), L.SimpleRNN(2)(one), L.GRU(2)(a, initial_state=h), L.Flatten()(a)]
    y += [L.LSTM(2)(L.TimeDistributed(L.BatchNormalization())(w))]
    return keras.Model([x, z], L.Dense(2)(L.Concatenate(name="all")([L.Concatenate(name="first")(y[:9]), L.Concatenate(name="last")(y[9:])])),
                       name="masked_features")


@model(lambda: O.SGD(0.05), tokens=6)
def masked_attention():
    """Attention takes the masks off its inputs: the second one sees padding as queries."""
    x, z = x_of((5,), "x", "int32"), x_of((4,), "z", "int32")
    a, b = L.Embedding(6, 4, mask_zero=True)(x), L.Embedding(6, 4, mask_zero=True)(z)
    pooled = [L.GlobalAveragePooling1D()(a)]
    y = L.Add()([a, L.MultiHeadAttention(2, 3, name="own")(a, a)])
    y = L.Add()([y, L.MultiHeadAttention(1, 3, name="causal")(y, y, use_causal_mask=True)])
    y = L.LayerNormalization()(y)
    y = L.GroupQueryAttention(3, 2, 1)(y, b)
    y = L.MultiHeadAttention(2, 2, name="keys")(y, b, key=L.Dense(3)(b))
    pooled += [L.GlobalAveragePooling1D()(y), L.GlobalMaxPooling1D()(b), L.Flatten()(L.GlobalAveragePooling1D(keepdims=True)(b))]
    return keras.Model([x, z], [L.Dense(2, name="of_row")(L.Concatenate()(pooled)), L.Dense(3, name="of_step")(y)],
                       name="masked_attention")


@model(lambda: O.SGD(0.05), "sparse_categorical_crossentropy", tokens=3, classes=4, tested=True)
def masked_order():
    """The file has `beside` before the attention, as deep; Keras runs it behind, when the attention has taken the mask."""
    x = x_of((5,), dtype="int32")
    e = L.Embedding(3, 4, mask_zero=True)(x)
    beside = L.Dense(4, name="beside")(e)
    attended = L.MultiHeadAttention(1, 2)(e, e)
    return keras.Model(x, L.Dense(4, activation="softmax")(L.Add()([L.Dense(4)(beside), L.Dense(4)(attended)])))


@model(lambda: O.SGD(0.05), tested=True)
def own_masks():
    """`mask` of calls that is not the mask of the input: a tensor of its own, also beside an initial_state."""
    o, x = keras.ops, x_of((5, 3))
    m = x[:, :, 0] >= o.mean(x[:, :, 0], axis=1, keepdims=True)
    h, masked = L.Dense(2, name="state")(x[:, 0]), L.Masking()(x)
    y = [L.LSTM(2)(x, mask=m), L.LSTM(2)(x, initial_state=[h, h], mask=m), L.GRU(2)(masked, mask=m),
         L.RNN(L.SimpleRNNCell(2))(x, mask=m), L.GlobalAveragePooling1D()(L.Dense(2)(x), mask=m),
         L.Bidirectional(L.GRU(2))(x, mask=m)]
    steps = [L.GRU(2, return_sequences=True, zero_output_for_mask=True)(x, mask=m),
             L.Bidirectional(L.LSTM(2, return_sequences=True))(x, mask=m),
             L.Softmax()(L.Dense(3)(x), mask=x > 0), L.Softmax(axis=[1, 2])(L.Dense(2)(x), mask=o.expand_dims(m, -1))]
    return keras.Model(x, [L.Concatenate()(y), L.Concatenate()(steps)], name="own_masks")


@model(lambda: O.SGD(0.05), tokens=3)
def masked_whole():
    """Attention of rows whose values are all padding, perhaps: all scores are lower by as much."""
    x, z = x_of((4,), "x", "int32"), x_of((2,), "z", "int32")
    a, b = L.Embedding(3, 4, name="queries")(x), L.Embedding(3, 4, mask_zero=True, name="values")(z)
    y = [L.Attention()([a, b]), L.AdditiveAttention()([a, b]), L.Attention()([b, b], use_causal_mask=True),
         L.MultiHeadAttention(2, 3, name="keys")(a, b), L.MultiHeadAttention(2, 3, name="both")(b, b)]
    return keras.Model([x, z], y, name="masked_whole")


@model(lambda: O.SGD(0.05), tokens=4)
def masked_models():
    """Masks go through models and blocks, and through layers that are called twice."""
    inner = x_of((4, 3), "inner")
    encoder = keras.Model(inner, L.Dense(3)(L.LSTM(3, return_sequences=True)(inner)), name="encoder")
    words = keras.Sequential([x_of((4,), "words", "int32"), L.Embedding(4, 3, mask_zero=True)], name="words")
    x = x_of((4,), dtype="int32")
    y = encoder(words(x))
    y = encoder(y)
    return keras.Model(x, [L.GRU(2, name="last")(y), L.Dense(2, name="steps")(y)], name="masked_models")


@model(lambda: O.SGD(0.05), tokens=3)
def masked_cells():
    """An RNN of a cell passes the mask of its input on, to pools, losses and other cells."""
    x = x_of((5,), dtype="int32")
    y = L.RNN(L.GRUCell(3), return_sequences=True)(L.Embedding(3, 4, mask_zero=True)(x))
    z = L.RNN(L.LSTMCell(3), return_sequences=True)(y)
    pooled = L.RepeatVector(5)(L.GlobalAveragePooling1D()(L.RNN(L.SimpleRNNCell(2), return_sequences=True)(z)))
    return keras.Model(x, L.Dense(4, activation="softmax")(L.Concatenate(name="all")([z, pooled])))


# ---- data ----

def integers(v, shape, below):
    """The hash of make_training.py, as whole numbers below a bound."""
    value = (hashed(v, shape, 1.0).astype(np.float64) + 1) / 2 * below
    return np.minimum(np.floor(value), below - 1).astype(np.int32)


def data(net, options):
    x, y = [], []
    for i, tensor in enumerate(net.inputs):
        shape = (ROWS,) + tuple(tensor.shape[1:])
        below = 2 if tensor.dtype == "bool" else options["tokens"]
        x.append(integers(1000 + i, shape, below) if below else hashed(1000 + i, shape, 1.0))
    for i, tensor in enumerate(net.outputs):
        shape = (ROWS,) + tuple(tensor.shape[1:])
        if options["classes"]:
            y.append(integers(2000 + i, shape[:-1], options["classes"]))
        else:
            y.append(hashed(2000 + i, shape, 1.0))
    return x, y


def one(values):
    return values[0] if len(values) == 1 else values


def inputs_of(net, values):
    """As the network is called with them: by keys if it has some."""
    ends = getattr(net, "_inputs_struct", None)
    return dict(zip(sorted(ends), values)) if isinstance(ends, dict) else one(values)


def targets_of(net, values):
    ends = getattr(net, "_outputs_struct", None)
    return dict(zip(sorted(ends), values)) if isinstance(ends, dict) else one(values)


def renumber(value, known):
    """Ids of shared objects, which are addresses, as small numbers: so that files come out alike."""
    if isinstance(value, dict):
        if "shared_object_id" in value:
            value["shared_object_id"] = known.setdefault(value["shared_object_id"], len(known) + 1)
        value = value.values()
    for inner in value if not isinstance(value, (str, int, float, bool, type(None))) else ():
        renumber(inner, known)


def pack(path):
    """The zip once more, deflated, without dates and addresses."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "metadata.json":
                content = json.dumps({**json.loads(content), "date_saved": "2026-01-01@00:00:00"}).encode()
            if name == "config.json":
                config = json.loads(content)
                renumber(config, {})
                content = json.dumps(config).encode()
            new.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    path.write_bytes(out.getvalue())


def numbers(values):
    return [[float(f"{v:.9g}") for v in np.asarray(a, np.float64).ravel()] for a in values]


def listed(value):
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def make(name):
    build, settings, options = MODELS[name]
    keras.backend.clear_session()
    keras.utils.set_random_seed(sum(map(ord, name)))
    net = build()
    settings = dict(settings)
    if callable(settings["optimizer"]):
        settings["optimizer"] = settings["optimizer"]()
    net.compile(**settings)
    for v in net.variables:  # what is zero or one at first would hide a mistake
        if v.name in ("bias", "beta", "moving_mean", "gamma", "scale", "moving_variance"):
            near = 1.0 if v.name in ("gamma", "scale", "moving_variance") else 0.0
            v.assign(near + hashed(len(v.path), tuple(v.shape), 0.3))
    x, y = data(net, options)
    entry = {**{k: v for k, v in options.items() if k not in ("stored", "tested")}, "y": numbers(listed(net(inputs_of(net, x), training=False)))}
    path = FOLDER / f"{name}.keras"
    net.save(path)
    entry["losses"], logs = [], {}
    for _ in range(STEPS if options["train"] else 0):
        logged = net.test_on_batch(inputs_of(net, x), targets_of(net, y), return_dict=True) if options["tested"] else None
        net.reset_metrics()
        loss = net.train_on_batch(inputs_of(net, x), targets_of(net, y), return_dict=True)
        net.reset_metrics()
        entry["losses"].append(float(f"{float(loss['loss']):.9g}"))
        for key, value in (logged or loss).items():
            logs.setdefault(key, []).append(float(f"{float(value):.9g}"))
    if settings.get("metrics"):
        entry["logs"] = logs
    if options["train"]:
        entry["trained_y"] = numbers(listed(net(inputs_of(net, x), training=False)))
        net.save(FOLDER / f"{name}.trained.keras")
        pack(FOLDER / f"{name}.trained.keras")
    if not options["stored"]:
        pack(path)
    return entry


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    listing = common.HERE / "table.json"
    chosen = sys.argv[1:]
    entries = json.loads(listing.read_text()) if chosen else {}
    for name in chosen or MODELS:
        entries[name] = make(name)
    entries = {name: entries[name] for name in MODELS if name in entries}
    listing.write_text("{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(e)}" for n, e in entries.items()) + "\n}\n")
    size = sum(f.stat().st_size for f in FOLDER.iterdir()) + listing.stat().st_size
    print(f"table.json and table/: {len(entries)} models, {size} bytes")
