"""layers.h5, layers_more.h5, layers_attention.h5, ...: output and gradients of Keras layers, computed in
float64.

    KERAS_BACKEND=jax python make_layers.py [FILE]    (see README.md for the format)
"""

import sys

import common

keras = common.keras_on_jax("float64")

import jax
import jax.numpy as jnp
import numpy as np
from keras.src.applications import convnext, inception_resnet_v2

L = keras.layers


def run(name, layer, inputs, training, positive=(), call=None,
        masked=None):
    """Random weights, one forward pass, gradients of sum(y * dy).
    `positive`: names of weights that are variances or scales, kept near 1.
    `call`: how the layer is called with its inputs, where not with all as one argument.
    `masked`: the number of an input to which no gradient flows."""
    generator = common.rng(name + "/weights")
    call = call or (lambda layer, x: layer(x if len(x) > 1 else x[0]))
    call(layer, inputs)  # builds
    weights = []
    for v in layer.weights:
        shape = tuple(v.shape)
        if v.dtype.startswith("int"):  # a count
            w = np.full(shape, 7, np.int32)
        elif v.name in positive:
            w = generator.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            fan = np.prod(shape[:-1]) if len(shape) > 1 else 4
            w = common.normal(generator, shape, 1 / np.sqrt(fan))
        v.assign(w)
        weights.append(w)
    if isinstance(layer, L.Normalization):
        layer.finalize_state()  # it computes with a copy of its weights
    trainable = [jnp.asarray(v.value) for v in layer.trainable_variables]
    fixed = [jnp.asarray(v.value) for v in layer.non_trainable_variables]
    floating = np.issubdtype(inputs[0].dtype, np.floating)
    mode = {"training": training} if layer._call_has_training_arg else {}

    def forward(xs, ws):
        return call(lambda *x, **named: layer.stateless_call(ws, fixed, *x, **named, **mode),
                    list(xs))

    xs = [jnp.asarray(x, jnp.float64) if floating else jnp.asarray(x)
          for x in inputs]
    if floating:
        y, back, after = jax.vjp(forward, xs, trainable, has_aux=True)
    else:
        y, back, after = jax.vjp(lambda ws: forward(xs, ws), trainable,
                                 has_aux=True)
    assert y.dtype == jnp.float64
    dy = common.normal(common.rng(name + "/dy"), y.shape)
    found = back(jnp.asarray(dy, jnp.float64))
    dx, dw = found if floating else ([], found[0])
    data = dict(dy=dy, y=np.asarray(y))
    several = len(inputs) > 1
    for i, x in enumerate(inputs):
        data[f"x{i}" if several else "x"] = x
    for i, d in enumerate(dx):
        if i == masked:
            continue
        data[f"dx{i}" if several else "dx"] = np.asarray(d)
    data.update(common.numbered("w", weights))
    data.update(common.numbered("dw", [np.asarray(d) for d in dw]))
    if training and fixed:
        names = [v.name for v in layer.non_trainable_variables]
        for key, value in zip(names, after):
            if key.startswith("moving_"):
                data[f"{key}_after"] = np.asarray(value)
    return data, len(weights), len(trainable)


# What is stored of a layer's arguments, with Keras's defaults.
ARGUMENTS = {
    "Rescaling": dict(scale=1.0, offset=0.0),
    "Normalization": dict(axis=-1, mean=None, variance=None, invert=False),
    "LayerScale": dict(init_values=None, projection_dim=None),
    "StochasticDepth": dict(drop_path_rate=None),
    "CustomScaleLayer": dict(scale=None),
    "Identity": dict(),
    "RepeatVector": dict(n=None),
    "ZeroPadding1D": dict(padding=1),
    "Cropping1D": dict(cropping=(1, 1)),
    "UpSampling1D": dict(size=2),
    "CenterCrop": dict(height=None, width=None),
    "UnitNormalization": dict(axis=-1),
    "ActivityRegularization": dict(l1=0.0, l2=0.0),
    "EinsumDense": dict(equation=None, output_shape=None, bias_axes=None, activation="linear"),
    "Dot": dict(axes=None, normalize=False),
    "DepthwiseConv1D": dict(kernel_size=None, strides=1, padding="valid", depth_multiplier=1, dilation_rate=1,
                            use_bias=True, activation="linear"),
    "SeparableConv1D": dict(filters=None, kernel_size=None, strides=1, padding="valid", dilation_rate=1,
                            depth_multiplier=1, use_bias=True, activation="linear"),
    "AdaptiveAveragePooling1D": dict(output_size=None),
    "AdaptiveAveragePooling2D": dict(output_size=None),
    "AdaptiveAveragePooling3D": dict(output_size=None),
    "AdaptiveMaxPooling1D": dict(output_size=None),
    "AdaptiveMaxPooling2D": dict(output_size=None),
    "AdaptiveMaxPooling3D": dict(output_size=None),
    "Attention": dict(use_scale=False, score_mode="dot", dropout=0.0),
    "AdditiveAttention": dict(use_scale=True, dropout=0.0),
    "SpatialDropout1D": dict(rate=None),
    "SpatialDropout2D": dict(rate=None),
    "SpatialDropout3D": dict(rate=None),
    "GaussianDropout": dict(rate=None),
    "AlphaDropout": dict(rate=None),
    "Flatten": dict(),
    "Reshape": dict(target_shape=None),
    "Dense": dict(units=None, use_bias=True, activation="linear"),
    "Conv2D": dict(filters=None, kernel_size=None, strides=(1, 1),
                   padding="valid", dilation_rate=(1, 1), groups=1,
                   use_bias=True, activation="linear"),
    "BatchNormalization": dict(axis=-1, momentum=0.99, epsilon=1e-3,
                               center=True, scale=True),
    "LayerNormalization": dict(axis=-1, epsilon=1e-3, center=True, scale=True),
    "Activation": dict(activation=None),
    "LeakyReLU": dict(negative_slope=0.3),
    "ELU": dict(alpha=1.0),
    "ReLU": dict(max_value=None, negative_slope=0.0, threshold=0.0),
    "Softmax": dict(axis=-1),
    "MaxPooling2D": dict(pool_size=(2, 2), strides=None, padding="valid"),
    "AveragePooling2D": dict(pool_size=(2, 2), strides=None, padding="valid"),
    "GlobalAveragePooling2D": dict(keepdims=False),
    "GlobalMaxPooling2D": dict(keepdims=False),
    "Dropout": dict(rate=None),
    "Conv1D": dict(filters=None, kernel_size=None, strides=1, padding="valid",
                   dilation_rate=1, groups=1, use_bias=True,
                   activation="linear"),
    "DepthwiseConv2D": dict(kernel_size=None, strides=(1, 1), padding="valid",
                            depth_multiplier=1, dilation_rate=(1, 1),
                            use_bias=True, activation="linear"),
    "SeparableConv2D": dict(filters=None, kernel_size=None, strides=(1, 1),
                            padding="valid", dilation_rate=(1, 1),
                            depth_multiplier=1, use_bias=True,
                            activation="linear"),
    "Conv1DTranspose": dict(filters=None, kernel_size=None, strides=1,
                            padding="valid", output_padding=None,
                            dilation_rate=1, use_bias=True,
                            activation="linear"),
    "Conv2DTranspose": dict(filters=None, kernel_size=None, strides=(1, 1),
                            padding="valid", output_padding=None,
                            dilation_rate=(1, 1), use_bias=True,
                            activation="linear"),
    "Conv3D": dict(filters=None, kernel_size=None, strides=(1, 1, 1),
                   padding="valid", dilation_rate=(1, 1, 1), groups=1,
                   use_bias=True, activation="linear"),
    "Conv3DTranspose": dict(filters=None, kernel_size=None, strides=(1, 1, 1),
                            padding="valid", output_padding=None,
                            dilation_rate=(1, 1, 1), use_bias=True,
                            activation="linear"),
    "MaxPooling3D": dict(pool_size=(2, 2, 2), strides=None, padding="valid"),
    "AveragePooling3D": dict(pool_size=(2, 2, 2), strides=None,
                             padding="valid"),
    "GlobalAveragePooling3D": dict(keepdims=False),
    "GlobalMaxPooling3D": dict(keepdims=False),
    "ZeroPadding3D": dict(padding=1),
    "Cropping3D": dict(cropping=1),
    "UpSampling3D": dict(size=(2, 2, 2)),
    "ZeroPadding2D": dict(padding=1),
    "Cropping2D": dict(cropping=0),
    "UpSampling2D": dict(size=(2, 2), interpolation="nearest"),
    "GroupNormalization": dict(groups=32, axis=-1, epsilon=1e-3, center=True,
                               scale=True),
    "MultiHeadAttention": dict(num_heads=None, key_dim=None, value_dim=None,
                               dropout=0.0, use_bias=True, use_gate=False,
                               output_shape=None, attention_axes=None,
                               sliding_window=None),
    "RMSNormalization": dict(axis=-1, epsilon=1e-6),
    "GroupQueryAttention": dict(head_dim=None, num_query_heads=None,
                                num_key_value_heads=None, dropout=0.0,
                                use_bias=True, use_gate=False,
                                sliding_window=None),
    "LSTM": dict(units=None, activation="tanh", recurrent_activation="sigmoid", use_bias=True,
                 return_sequences=False, go_backwards=False),
    "GRU": dict(units=None, activation="tanh", recurrent_activation="sigmoid", use_bias=True,
                return_sequences=False, go_backwards=False),
    "SimpleRNN": dict(units=None, activation="tanh", use_bias=True, return_sequences=False, go_backwards=False),
    "Bidirectional": dict(layer=None, merge_mode="concat", backward_layer=None),
    "TimeDistributed": dict(layer=None),
    "RNN": dict(cell=None, return_sequences=False, go_backwards=False),
    "LSTMCell": dict(units=None, activation="tanh", recurrent_activation="sigmoid", use_bias=True),
    "GRUCell": dict(units=None, activation="tanh", recurrent_activation="sigmoid", use_bias=True),
    "SimpleRNNCell": dict(units=None, activation="tanh", use_bias=True),
    "ConvLSTM1D": dict(filters=None, kernel_size=None, strides=1, padding="valid", dilation_rate=1, activation="tanh",
                       recurrent_activation="sigmoid", use_bias=True, return_sequences=False, go_backwards=False),
    "ConvLSTM2D": dict(filters=None, kernel_size=None, strides=(1, 1), padding="valid", dilation_rate=(1, 1),
                       activation="tanh", recurrent_activation="sigmoid", use_bias=True, return_sequences=False,
                       go_backwards=False),
    "RandomFlip": dict(mode="horizontal_and_vertical"),
    "RandomTranslation": dict(height_factor=None, width_factor=None, fill_mode="reflect", interpolation="bilinear",
                              fill_value=0.0),
    "RandomCrop": dict(height=None, width=None),
    "RandomRotation": dict(factor=None, fill_mode="reflect", interpolation="bilinear", fill_value=0.0),
    "RandomZoom": dict(height_factor=None, width_factor=None, fill_mode="reflect", interpolation="bilinear",
                       fill_value=0.0),
    "RandomShear": dict(x_factor=0.0, y_factor=0.0, fill_mode="reflect", interpolation="bilinear", fill_value=0.0),
    "RandomContrast": dict(factor=None, value_range=(0, 255)),
    "RandomBrightness": dict(factor=None, value_range=(0, 255)),
    "RandomInvert": dict(factor=1.0, value_range=(0, 255)),
    "RandomErasing": dict(factor=1.0, scale=(0.02, 0.33), fill_value=None, value_range=(0, 255)),
    "GaussianNoise": dict(stddev=None),
    "PReLU": dict(shared_axes=None),
    "Permute": dict(dims=None),
    "MaxPooling1D": dict(pool_size=2, strides=None, padding="valid"),
    "AveragePooling1D": dict(pool_size=2, strides=None, padding="valid"),
    "GlobalAveragePooling1D": dict(keepdims=False),
    "GlobalMaxPooling1D": dict(keepdims=False),
    "Subtract": dict(),
    "Average": dict(),
    "Maximum": dict(),
    "Minimum": dict(),
    "Add": dict(),
    "Multiply": dict(),
    "Concatenate": dict(axis=-1),
    "Embedding": dict(input_dim=None, output_dim=None),
    "Masking": dict(mask_value=0.0),
    "ReversibleEmbedding": dict(input_dim=None, output_dim=None),
    "PositionEmbedding": dict(sequence_length=None),
    "RotaryEmbedding": dict(max_wavelength=10000, scaling_factor=1.0, sequence_axis=1),
}
SIZES = ("kernel_size", "strides", "dilation_rate", "pool_size")


def of_part(key, layer):
    """The arguments of a layer that is an argument: `key` is its class, "key.units" its units."""
    stored = layer.get_config()
    known = {name: stored[name] for name in ARGUMENTS[type(layer).__name__] if name in stored}
    return {key: type(layer).__name__,
            **{f"{key}.{name}": value for name, value in attributes(type(layer).__name__, known).items() if name != "layer"}}


def attributes(layer_class, given):
    out = {**ARGUMENTS[layer_class], **given}
    for key, value in list(out.items()):
        if isinstance(value, L.Layer):
            del out[key]
            out.update(of_part("part" if key == "layer" else key, value))
    out["layer"] = layer_class
    if out.get("strides", 0) is None:  # pooling: as the pool
        out["strides"] = out["pool_size"]
    for key in SIZES:
        if isinstance(out.get(key), int) and "1D" not in layer_class:
            out[key] = (out[key],) * (3 if "3D" in layer_class else 2)
    return {key: value for key, value in out.items() if value is not None}


class Writer:
    def __init__(self, file):
        self.file = file

    def __call__(self, name, layer_class, *inputs, training=False, build=None,
                 note=None, call=None, called={}, masked=None, **given):
        """One case. An input is a shape (normal random numbers) or an array.
        `build` replaces the constructor where the stored arguments are not Keras's;
        `call` calls the layer with its inputs; `called` are arguments of the call
        that are stored beside the layer's."""
        arrays = [x if isinstance(x, np.ndarray) else
                  common.normal(common.rng(f"{name}/x{i}"), x)
                  for i, x in enumerate(inputs)]
        layer = build() if build else getattr(L, layer_class)(**given)
        data, weights, trainable = run(name, layer, arrays, training,
                                       positive=("gamma", "moving_variance", "variance"),
                                       call=call, masked=masked)
        head = dict(attributes(layer_class, given), **called)
        head.update(training=training, inputs=len(arrays), weights=weights,
                    trainable=trainable)
        if note:
            head["note"] = note
        self.file.case(name, head, **data)


def simple(case):
    case("rescaling/image", "Rescaling",
         common.rng("image").integers(0, 256, (2, 3, 4, 1)).astype(np.float32),
         scale=1 / 255)
    case("rescaling/offset", "Rescaling", (3, 5), scale=1 / 127.5, offset=-1.0)
    case("flatten/rank4", "Flatten", (2, 3, 4, 2))
    case("flatten/rank2", "Flatten", (3, 5))
    case("reshape/to_rank4", "Reshape", (2, 12), target_shape=(3, 2, 2))
    case("reshape/to_rank3", "Reshape", (2, 3, 4, 2), target_shape=(6, 4))
    case("reshape/minus_one", "Reshape", (2, 3, 4), target_shape=(2, -1))
    case("dropout/inference", "Dropout", (3, 5), rate=0.5)
    case("embedding/rank2", "Embedding",
         common.rng("tokens").integers(0, 9, (4, 6)).astype(np.int32),
         input_dim=9, output_dim=5)
    case("embedding/rank1", "Embedding", np.array([3, 0, 3, 3, 7], np.int32),
         input_dim=8, output_dim=3)


def dense(case):
    case("dense/bias", "Dense", (4, 7), units=5)
    case("dense/no_bias", "Dense", (4, 7), units=5, use_bias=False)
    case("dense/one_by_one", "Dense", (3, 1), units=1)
    case("dense/one_row", "Dense", (1, 9), units=4)
    case("dense/wide", "Dense", (5, 33), units=17)
    case("dense/rank3", "Dense", (2, 3, 7), units=5)
    case("dense/rank4_no_bias", "Dense", (2, 3, 2, 5), units=3, use_bias=False)
    for a in ("relu", "softmax", "sigmoid", "tanh", "gelu", "silu", "elu",
              "softplus", "leaky_relu"):
        case(f"dense/{a}", "Dense", (4, 7), units=5, activation=a)
    case("dense/rank3_softmax", "Dense", (2, 3, 7), units=5,
         activation="softmax")


def conv2d(case):
    for padding in ("same", "valid"):
        for stride in (1, 2, 3):
            for k in (3, 4):
                case(f"conv2d/{padding}_stride{stride}_k{k}", "Conv2D",
                     (2, 9, 7, 3), filters=5, kernel_size=k, strides=stride,
                     padding=padding)
        case(f"conv2d/{padding}_dilation2_k3", "Conv2D", (2, 9, 8, 3),
             filters=4, kernel_size=3, dilation_rate=2, padding=padding)
        case(f"conv2d/{padding}_dilation2x3_k2", "Conv2D", (2, 9, 8, 2),
             filters=3, kernel_size=2, dilation_rate=(2, 3), padding=padding)
        case(f"conv2d/{padding}_groups2", "Conv2D", (2, 6, 5, 4), filters=6,
             kernel_size=3, groups=2, padding=padding)
        case(f"conv2d/{padding}_groups4_stride2", "Conv2D", (2, 7, 6, 12),
             filters=8, kernel_size=3, strides=2, groups=4, padding=padding)
        case(f"conv2d/{padding}_depthwise", "Conv2D", (2, 6, 5, 12),
             filters=12, kernel_size=3, groups=12, padding=padding)
        case(f"conv2d/{padding}_stride2_even_size", "Conv2D", (2, 8, 6, 3),
             filters=4, kernel_size=3, strides=2, padding=padding)
        case(f"conv2d/{padding}_kernel2x5", "Conv2D", (2, 6, 7, 3), filters=4,
             kernel_size=(2, 5), padding=padding)
        case(f"conv2d/{padding}_strides2x1", "Conv2D", (2, 7, 8, 1), filters=4,
             kernel_size=(3, 2), strides=(2, 1), padding=padding)
    case("conv2d/depthwise_times2_stride2", "Conv2D", (2, 7, 6, 3), filters=6,
         kernel_size=(3, 4), strides=2, groups=3, padding="same")
    case("conv2d/groups2_dilation2", "Conv2D", (2, 7, 6, 4), filters=4,
         kernel_size=3, dilation_rate=2, groups=2, padding="same")
    case("conv2d/no_bias", "Conv2D", (2, 6, 5, 3), filters=4, kernel_size=3,
         padding="same", use_bias=False)
    case("conv2d/relu", "Conv2D", (2, 6, 5, 3), filters=4, kernel_size=3,
         padding="same", activation="relu")
    case("conv2d/one_by_one", "Conv2D", (2, 5, 4, 12), filters=7, kernel_size=1)
    case("conv2d/one_by_one_stride2", "Conv2D", (2, 5, 4, 12), filters=7,
         kernel_size=1, strides=2, padding="same")
    case("conv2d/stride_over_kernel", "Conv2D", (2, 8, 9, 2), filters=3,
         kernel_size=2, strides=3, padding="same")
    case("conv2d/kernel_over_image", "Conv2D", (2, 3, 2, 2), filters=3,
         kernel_size=5, padding="same")
    case("conv2d/kernel_is_image", "Conv2D", (3, 4, 3, 2), filters=3,
         kernel_size=(4, 3))
    case("conv2d/one_row", "Conv2D", (1, 5, 5, 1), filters=1, kernel_size=3,
         padding="same")
    # The three convolutions of `convnet`, on a smaller image.
    case("conv2d/guide1", "Conv2D", (1, 12, 12, 1), filters=12, kernel_size=3,
         padding="same", use_bias=False)
    case("conv2d/guide2", "Conv2D", (1, 12, 12, 12), filters=24, kernel_size=6,
         strides=2, use_bias=False)
    case("conv2d/guide3", "Conv2D", (1, 6, 6, 24), filters=8, kernel_size=6,
         strides=2, padding="same")


def more_convolutions(case):
    for padding in ("same", "valid", "causal"):
        for stride, dilation in ((1, 1), (2, 1), (1, 2)):
            case(f"conv1d/{padding}_stride{stride}_dilation{dilation}",
                 "Conv1D", (2, 9, 3), filters=5, kernel_size=3,
                 strides=stride, dilation_rate=dilation, padding=padding)
    case("conv1d/groups2_k4", "Conv1D", (2, 8, 4), filters=6, kernel_size=4,
         groups=2, padding="same")
    case("conv1d/no_bias_relu", "Conv1D", (3, 6, 2), filters=3, kernel_size=2,
         use_bias=False, activation="relu")
    case("conv1d/causal_over_input", "Conv1D", (2, 3, 2), filters=2,
         kernel_size=5, padding="causal")
    for padding in ("same", "valid"):
        for stride in (1, 2):
            for k in (3, (2, 4)):
                for multiplier in (1, 3):
                    n = k if isinstance(k, int) else "%dx%d" % k
                    case(f"depthwise_conv2d/{padding}_stride{stride}_k{n}"
                         f"_times{multiplier}", "DepthwiseConv2D",
                         (2, 7, 6, 5), kernel_size=k, strides=stride,
                         padding=padding, depth_multiplier=multiplier)
        case(f"depthwise_conv2d/{padding}_dilation2", "DepthwiseConv2D",
             (2, 8, 7, 4), kernel_size=3, dilation_rate=2, padding=padding)
        case(f"depthwise_conv2d/{padding}_many", "DepthwiseConv2D",
             (2, 6, 5, 37), kernel_size=3, padding=padding)
        case(f"separable_conv2d/{padding}", "SeparableConv2D", (2, 7, 6, 3),
             filters=5, kernel_size=3, padding=padding)
        case(f"separable_conv2d/{padding}_stride2_times2", "SeparableConv2D",
             (2, 7, 6, 3), filters=4, kernel_size=(3, 2), strides=2,
             depth_multiplier=2, padding=padding, activation="relu")
    case("depthwise_conv2d/no_bias_relu6", "DepthwiseConv2D", (2, 6, 5, 3),
         kernel_size=3, use_bias=False, activation="relu6")
    case("depthwise_conv2d/one_channel", "DepthwiseConv2D", (2, 6, 5, 1),
         kernel_size=3, depth_multiplier=4, padding="same")
    case("separable_conv2d/no_bias_dilation2", "SeparableConv2D", (2, 7, 8, 3),
         filters=4, kernel_size=3, dilation_rate=2, use_bias=False)


def images(case):
    for name, padding in (("one", 1), ("pair", (2, 1)),
                          ("sides", ((0, 1), (2, 3))), ("none", ((0, 0), (0, 0)))):
        case(f"zero_padding2d/{name}", "ZeroPadding2D", (2, 4, 3, 2),
             padding=padding)
        case(f"cropping2d/{name}", "Cropping2D", (2, 6, 8, 2), cropping=padding)
    for how in ("nearest", "bilinear"):
        for size in (2, (3, 1), (1, 4), (2, 5)):
            n = size if isinstance(size, int) else "%dx%d" % size
            case(f"up_sampling2d/{how}_{n}", "UpSampling2D", (2, 4, 3, 3),
                 size=size if isinstance(size, tuple) else (size, size),
                 interpolation=how)
        case(f"up_sampling2d/{how}_one_pixel", "UpSampling2D", (2, 1, 1, 3),
             size=(3, 2), interpolation=how)


def sequences(case):
    for kind in ("Max", "Average"):
        low = kind.lower()
        for padding in ("same", "valid"):
            for pool, strides in ((2, None), (3, 2), (2, 1), (2, 3)):
                s = "" if strides is None else f"_stride{strides}"
                case(f"{low}_pooling1d/{padding}_{pool}{s}", f"{kind}Pooling1D",
                     (2, 7, 3), pool_size=pool, strides=strides,
                     padding=padding)
        case(f"{low}_pooling1d/global", f"Global{kind}Pooling1D", (2, 4, 5))
        case(f"{low}_pooling1d/global_keepdims", f"Global{kind}Pooling1D",
             (2, 4, 5), keepdims=True)
    case("permute/rank3", "Permute", (2, 3, 4), dims=(2, 1))
    case("permute/rank4", "Permute", (2, 3, 4, 5), dims=(3, 1, 2))
    case("permute/none", "Permute", (2, 3, 4), dims=(1, 2))


def group_norm(case):
    for rank, shape in ((2, (4, 6)), (3, (2, 5, 6)), (4, (2, 3, 4, 6))):
        for groups in (1, 2, 6, -1):
            case(f"group_norm/rank{rank}_groups{groups}", "GroupNormalization",
                 shape, groups=groups)
    case("group_norm/axis1", "GroupNormalization", (2, 4, 3, 5), groups=2, axis=1)
    case("group_norm/axis2", "GroupNormalization", (2, 3, 4, 5), groups=2, axis=-2)
    case("group_norm/default_groups", "GroupNormalization", (2, 2, 64))
    case("group_norm/plain", "GroupNormalization", (2, 3, 6), groups=3,
         scale=False, center=False)
    case("group_norm/no_scale_epsilon", "GroupNormalization", (2, 3, 6),
         groups=3, scale=False, epsilon=1e-5)
    case("group_norm/no_center", "GroupNormalization", (2, 3, 6), groups=3,
         center=False)


def other_axes(case):
    for training in (True, False):
        mode = "train" if training else "inference"
        case(f"batch_norm/axis1_{mode}", "BatchNormalization", (3, 4, 3, 5),
             axis=1, training=training)
        case(f"batch_norm/axis2_{mode}", "BatchNormalization", (3, 4, 3, 5),
             axis=-2, training=training)
    case("layer_norm/axis1", "LayerNormalization", (3, 4, 5), axis=1)
    case("layer_norm/axes_first", "LayerNormalization", (2, 3, 4, 5),
         axis=(1, 2))
    case("layer_norm/axes_apart", "LayerNormalization", (2, 3, 4, 5),
         axis=(1, 3))
    case("activation/softmax_axes", "Softmax", (2, 3, 4, 5), axis=(2, 3))
    case("activation/softmax_axes_apart", "Softmax", (2, 3, 4, 5), axis=(1, 3))
    case("activation/softmax_one_axis", "Softmax", (2, 3, 4, 5), axis=(2,))


def more_merging(case):
    case("subtract/two", "Subtract", (3, 5), (3, 5))
    for name in ("Average", "Maximum", "Minimum"):
        low = name.lower()
        case(f"{low}/two", name, (3, 5), (3, 5))
        case(f"{low}/three_rank4", name, *[(2, 3, 2, 4)] * 3)
        case(f"{low}/broadcast", name, (3, 1, 4), (3, 5, 4))


def more_activations(case):
    wide = np.concatenate([
        common.normal(common.rng("activation"), (6, 5)),
        np.array([[-30, -9, -2.5, 2.5, 9, 30]], np.float32).T], 1)
    for a in ("relu6", "selu", "softsign", "hard_sigmoid", "hard_silu", "mish",
              "log_softmax", "swish"):
        case(f"activation/{a}", "Activation", wide, activation=a)
    case("activation/exponential", "Activation", (6, 5),
         activation="exponential")
    case("activation/relu_max", "ReLU", wide, max_value=6.0)
    case("activation/relu_max_slope", "ReLU", wide, max_value=1.5,
         negative_slope=0.1)
    case("activation/relu_threshold", "ReLU", wide, threshold=0.5)
    case("activation/relu_all", "ReLU", wide, threshold=0.5, max_value=3.0,
         negative_slope=0.25)
    case("activation/relu_slope", "ReLU", wide, negative_slope=0.125)
    case("prelu/rank2", "PReLU", (4, 5))
    case("prelu/rank4", "PReLU", (2, 3, 4, 5))
    case("prelu/shared", "PReLU", (2, 3, 4, 5), shared_axes=(1, 2))
    case("prelu/shared_one", "PReLU", (2, 3, 4), shared_axes=(2,))
    case("gaussian_noise/inference", "GaussianNoise", (3, 5), stddev=0.5)


def new_activations(case):
    wide = np.concatenate([
        common.normal(common.rng("log_sigmoid"), (6, 5)),
        np.array([[-90, -9, -0.0, 0.5, 20, 90]], np.float32).T], 1)
    case("activation/log_sigmoid", "Activation", wide,
         activation="log_sigmoid")
    case("dense/log_sigmoid", "Dense", (4, 7), units=5,
         activation="log_sigmoid")


def attention(case):
    def call(**named):
        return lambda layer, x: layer(*x, **named)

    # With dropout 0 Keras 3.15.1 on JAX refuses a value_dim other than key_dim, and
    # takes the softmax in float32 whatever the type.
    small = dict(num_heads=2, key_dim=3, dropout=0.1)
    plain = dict(num_heads=2, key_dim=3)
    case("attention/plain", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), called=dict(tolerance=1e-6), **plain)
    case("attention/plain_causal", "MultiHeadAttention", (2, 5, 6), (2, 5, 6),
         call=call(use_causal_mask=True),
         called=dict(use_causal_mask=True, tolerance=1e-6), **plain)
    case("attention/cross", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), **small)
    case("attention/key", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         (2, 5, 3), call=call(), value_dim=4, **small)
    case("attention/no_bias", "MultiHeadAttention", (2, 4, 6), (2, 5, 6),
         call=call(), use_bias=False, **small)
    case("attention/gate", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), use_gate=True, value_dim=5, **small)
    case("attention/output", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), output_shape=8, **small)
    case("attention/output_2d", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), output_shape=(2, 3), **small)
    case("attention/one_head", "MultiHeadAttention", (2, 4, 6), (2, 5, 7),
         call=call(), num_heads=1, key_dim=5, dropout=0.1)
    case("attention/heads3", "MultiHeadAttention", (3, 7, 8), (3, 7, 8),
         call=call(), num_heads=3, key_dim=4, dropout=0.1)
    causal = call(use_causal_mask=True)
    case("attention/causal", "MultiHeadAttention", (2, 5, 6), (2, 5, 6),
         call=causal, called=dict(use_causal_mask=True), **small)
    case("attention/causal_cross", "MultiHeadAttention", (2, 4, 6), (2, 7, 6),
         call=causal, called=dict(use_causal_mask=True), **small)
    case("attention/window", "MultiHeadAttention", (2, 6, 6), (2, 6, 6),
         call=call(), sliding_window=2, **small)
    case("attention/window_causal", "MultiHeadAttention", (2, 6, 6), (2, 6, 6),
         call=causal, called=dict(use_causal_mask=True), sliding_window=3,
         **small)
    mask = common.rng("mask").integers(0, 2, (2, 4, 5)).astype(np.float32)
    mask[0, 1] = 0  # a place that attends to none
    case("attention/mask", "MultiHeadAttention", (2, 4, 6), (2, 5, 7), mask,
         call=lambda layer, x: layer(x[0], x[1], attention_mask=x[2]),
         called=dict(attention_mask=True), masked=2, **small)
    case("attention/mask_keys", "MultiHeadAttention", (2, 4, 6), (2, 5, 7), mask[:, 1:2],
         call=lambda layer, x: layer(x[0], x[1], attention_mask=x[2]),
         called=dict(attention_mask=True), masked=2, **small)
    case("attention/images", "MultiHeadAttention", (2, 3, 4, 6), (2, 2, 3, 6),
         call=call(), **small)
    case("attention/axes", "MultiHeadAttention", (2, 3, 4, 6), (2, 3, 5, 6),
         call=call(), attention_axes=(2,), **small)


def rms_norm(case):
    case("rms_norm/rank2", "RMSNormalization", (4, 7))
    case("rms_norm/rank3", "RMSNormalization", (2, 3, 6))
    case("rms_norm/one", "RMSNormalization", (3, 1))
    case("rms_norm/wide", "RMSNormalization", (5, 133))
    case("rms_norm/epsilon", "RMSNormalization", (4, 7), epsilon=0.1)
    case("rms_norm/axes", "RMSNormalization", (3, 4, 5), axis=(-2, -1))
    case("rms_norm/all_axes", "RMSNormalization", (2, 3, 4, 5), axis=(1, 2, 3))
    small = common.normal(common.rng("small"), (4, 7)) * np.float32(1e-3)
    case("rms_norm/small", "RMSNormalization", small, note="x is as small as the root of epsilon")


def grouped_attention(case):
    def call(**named):
        return lambda layer, x: layer(*x, **named)

    small = dict(head_dim=3, num_query_heads=4, num_key_value_heads=2, dropout=0.1)
    for name, heads, groups in (("one", 4, 1), ("two", 4, 2), ("three", 6, 3), ("all", 3, 3)):
        case(f"grouped_attention/{name}", "GroupQueryAttention", (2, 4, 6), (2, 5, 7), call=call(),
             head_dim=3, num_query_heads=heads, num_key_value_heads=groups, dropout=0.1)
    case("grouped_attention/plain_causal", "GroupQueryAttention", (2, 5, 6), (2, 5, 6),
         call=call(use_causal_mask=True), called=dict(use_causal_mask=True, tolerance=1e-6),
         head_dim=3, num_query_heads=4, num_key_value_heads=2)
    case("grouped_attention/causal", "GroupQueryAttention", (2, 5, 6), (2, 5, 6),
         call=call(use_causal_mask=True), called=dict(use_causal_mask=True), **small)
    case("grouped_attention/key", "GroupQueryAttention", (2, 4, 6), (2, 5, 7), (2, 5, 3), call=call(), **small)
    case("grouped_attention/no_bias", "GroupQueryAttention", (2, 4, 6), (2, 5, 6), call=call(), use_bias=False,
         **small)
    case("grouped_attention/gate", "GroupQueryAttention", (2, 4, 6), (2, 5, 7), call=call(), use_gate=True, **small)
    case("grouped_attention/window", "GroupQueryAttention", (2, 6, 6), (2, 6, 6), call=call(), sliding_window=2,
         **small)
    case("grouped_attention/window_causal", "GroupQueryAttention", (2, 6, 6), (2, 6, 6),
         call=call(use_causal_mask=True), called=dict(use_causal_mask=True), sliding_window=3, **small)
    mask = common.rng("mask").integers(0, 2, (2, 4, 5)).astype(np.float32)
    mask[0, 1] = 0  # a place that attends to none
    case("grouped_attention/mask", "GroupQueryAttention", (2, 4, 6), (2, 5, 7), mask,
         call=lambda layer, x: layer(x[0], x[1], attention_mask=x[2]),
         called=dict(attention_mask=True), masked=2, **small)


def recurrent(case):
    def with_state(layer, x):
        return layer(x[0], initial_state=list(x[1:]))

    for layer, gates, states in (("LSTM", True, 2), ("GRU", True, 1), ("SimpleRNN", False, 1)):
        low = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "simple_rnn"}[layer]
        case(f"{low}/last", layer, (3, 5, 4), units=6)
        case(f"{low}/sequences", layer, (2, 7, 3), units=5, return_sequences=True)
        case(f"{low}/one_step", layer, (3, 1, 4), units=3)
        case(f"{low}/one_unit", layer, (2, 4, 1), units=1, return_sequences=True)
        case(f"{low}/wide", layer, (2, 3, 20), units=37)
        case(f"{low}/no_bias", layer, (3, 5, 4), units=6, use_bias=False)
        case(f"{low}/backwards", layer, (3, 5, 4), units=6, go_backwards=True)
        case(f"{low}/backwards_sequences", layer, (3, 5, 4), units=6, go_backwards=True, return_sequences=True)
        case(f"{low}/initial_state", layer, (3, 5, 4), *[(3, 6)] * states, units=6, return_sequences=True,
             call=with_state)
        case(f"{low}/initial_state_backwards", layer, (3, 5, 4), *[(3, 6)] * states, units=6, go_backwards=True,
             call=with_state)
        for activation in ("sigmoid", "relu", "linear", "hard_sigmoid"):
            case(f"{low}/{activation}", layer, (3, 5, 4), units=6, activation=activation, return_sequences=True)
        for activation in ("hard_sigmoid", "tanh", "relu") if gates else ():
            case(f"{low}/gates_{activation}", layer, (3, 5, 4), units=6, recurrent_activation=activation,
                 return_sequences=True)


def bidirectional(case):
    def with_states(layer, x):
        return layer(x[0], initial_state=list(x[1:]))

    for layer, states in ((L.LSTM, 2), (L.GRU, 1), (L.SimpleRNN, 1)):
        low = {L.LSTM: "lstm", L.GRU: "gru", L.SimpleRNN: "simple_rnn"}[layer]
        for mode in ("concat", "sum", "mul", "ave"):
            case(f"bidirectional/{low}_{mode}", "Bidirectional", (3, 5, 4), layer=layer(6), merge_mode=mode)
            case(f"bidirectional/{low}_{mode}_sequences", "Bidirectional", (2, 4, 3),
                 layer=layer(5, return_sequences=True), merge_mode=mode)
        case(f"bidirectional/{low}_initial_state", "Bidirectional", (3, 5, 4), *[(3, 6)] * 2 * states,
             layer=layer(6, return_sequences=True), call=with_states)
        case(f"bidirectional/{low}_reversed", "Bidirectional", (3, 5, 4),
             layer=layer(6, return_sequences=True, go_backwards=True), backward_layer=layer(6, return_sequences=True))
        case(f"bidirectional/{low}_backward_layer", "Bidirectional", (3, 5, 4), layer=layer(6, return_sequences=True),
             backward_layer=layer(6, return_sequences=True, go_backwards=True, activation="relu", use_bias=False))
    case("bidirectional/one_step", "Bidirectional", (3, 1, 4), layer=L.GRU(2, return_sequences=True))


def time_distributed(case):
    case("time_distributed/dense", "TimeDistributed", (2, 4, 3), layer=L.Dense(5, activation="tanh"))
    case("time_distributed/dense_of_images", "TimeDistributed", (2, 3, 4, 2), layer=L.Dense(3))
    case("time_distributed/activation", "TimeDistributed", (2, 4, 3), layer=L.Activation("sigmoid"))
    case("time_distributed/conv1d", "TimeDistributed", (2, 3, 7, 2), layer=L.Conv1D(3, 2, strides=2))
    case("time_distributed/conv2d", "TimeDistributed", (2, 3, 6, 5, 2), layer=L.Conv2D(4, 3, padding="same"))
    case("time_distributed/pooling", "TimeDistributed", (2, 3, 6, 5, 2), layer=L.MaxPooling2D(2))
    case("time_distributed/global_pooling", "TimeDistributed", (2, 3, 6, 5, 2), layer=L.GlobalAveragePooling2D())
    case("time_distributed/flatten", "TimeDistributed", (2, 3, 4, 2), layer=L.Flatten())
    case("time_distributed/reshape", "TimeDistributed", (2, 3, 8), layer=L.Reshape((2, 4)))
    case("time_distributed/layer_norm", "TimeDistributed", (2, 3, 4, 5), layer=L.LayerNormalization(axis=1))
    case("time_distributed/batch_norm", "TimeDistributed", (3, 4, 5), layer=L.BatchNormalization(), training=True)
    case("time_distributed/batch_norm_inference", "TimeDistributed", (3, 4, 5), layer=L.BatchNormalization())
    case("time_distributed/lstm", "TimeDistributed", (2, 3, 4, 2), layer=L.LSTM(3, return_sequences=True))
    case("time_distributed/one_step", "TimeDistributed", (2, 1, 4, 3), layer=L.Conv1D(2, 2))
    case("time_distributed/many_steps", "TimeDistributed", (2, 19, 4, 1), layer=L.Conv1D(2, 2, use_bias=False))
    case("time_distributed/embedding", "TimeDistributed",
         common.rng("steps").integers(0, 9, (2, 3, 4)).astype(np.int32), layer=L.Embedding(9, 5))


def masking(case):
    x = common.rng("masking").integers(-1, 1, (3, 4, 2)).astype(np.float32)
    case("masking/zeros", "Masking", x)
    case("masking/value", "Masking", x - 0.5, mask_value=-0.5)


def normalization(case):
    image = (2, 3, 4, 5)
    for name, axis in (("last", -1), ("none", ()), ("first", 1), ("middle", 2), ("two", (1, -1)),
                       ("turned", (3, 1)), ("neighbours", (2, 3)), ("all", (1, 2, 3))):
        for invert in (False, True):
            case(f"normalization/adapted_{name}{'_invert' * invert}", "Normalization", image, axis=axis,
                 invert=invert)
    case("normalization/rank2", "Normalization", (4, 7))
    case("normalization/rank2_none", "Normalization", (4, 7), axis=())
    case("normalization/bytes", "Normalization", common.rng("bytes").integers(0, 256, image).astype(np.int32))
    five, ten = [0.5, -1.25, 3.0, 0.125, 10.0], [[0.25 * i - 1 for i in range(5 * j, 5 * j + 5)] for j in range(3)]
    squares, many = [0.25, 1.0, 7.5, 2.0, 0.03], [[0.1 + 0.3 * abs(v) for v in row] for row in ten]
    for name, given in (("number", dict(mean=0.5, variance=0.3)), ("list", dict(mean=five, variance=squares)),
                        ("one", dict(mean=[2.5], variance=[4.0])),
                        ("number_none", dict(mean=-3.0, variance=2.0, axis=())),
                        ("number_two", dict(mean=-3.0, variance=2.0, axis=(1, 3))),
                        ("last_of_two", dict(mean=five, variance=squares, axis=(1, 3))),
                        ("two", dict(mean=ten, variance=many, axis=(1, 3))),
                        ("column_of_two", dict(mean=[[0.5], [1.5], [-2.0]], variance=[[0.5], [1.5], [2.0]], axis=(3, 1))),
                        ("first", dict(mean=[0.5, 1.5, -2.0], variance=[0.5, 1.5, 2.0], axis=1)),
                        ("no_variance", dict(mean=five, variance=[0.0, 1e-16, 1e-12, 1.0, 0.0]))):
        case(f"normalization/given_{name}", "Normalization", image, **given)
    case("normalization/given_invert", "Normalization", image, mean=five, variance=squares, invert=True)


def of_applications(case):
    """The layers that keras.applications defines for itself; StochasticDepth in inference: the identity."""
    case("layer_scale/rank4", "LayerScale", (2, 3, 4, 5), build=lambda: convnext.LayerScale(1e-6, 5),
         init_values=1e-6, projection_dim=5)
    case("layer_scale/rank2", "LayerScale", (4, 7), build=lambda: convnext.LayerScale(1, 7), init_values=1,
         projection_dim=7)
    case("stochastic_depth/inference", "StochasticDepth", (3, 4, 5), build=lambda: convnext.StochasticDepth(0.4),
         drop_path_rate=0.4)
    case("stochastic_depth/none", "StochasticDepth", (3, 4, 5), build=lambda: convnext.StochasticDepth(0.0),
         drop_path_rate=0.0, training=True)
    case("custom_scale/rank4", "CustomScaleLayer", (2, 3, 4, 5), (2, 3, 4, 5),
         build=lambda: inception_resnet_v2.CustomScaleLayer(0.17), scale=0.17)


def batch_norm(case):
    for training in (True, False):
        mode = "train" if training else "inference"
        for rank, shape in ((2, (7, 5)), (4, (3, 4, 3, 5))):
            case(f"batch_norm/rank{rank}_{mode}", "BatchNormalization", shape,
                 training=training)
        for name, given in (("no_scale", dict(scale=False)),
                            ("no_center", dict(center=False)),
                            ("plain", dict(scale=False, center=False)),
                            ("momentum_epsilon",
                             dict(momentum=0.7, epsilon=1e-5))):
            case(f"batch_norm/{name}_{mode}", "BatchNormalization",
                 (3, 4, 3, 5), training=training, **given)
    shifted = common.normal(common.rng("shifted"), (4, 3, 3, 2)) \
        + np.array([50, -20], np.float32)
    case("batch_norm/large_mean_train", "BatchNormalization", shifted,
         training=True, note="mean far from 0: the variance needs two passes")
    case("batch_norm/one_row_train", "BatchNormalization", (1, 2, 3, 4),
         training=True)


def layer_norm(case):
    case("layer_norm/rank2", "LayerNormalization", (4, 7))
    case("layer_norm/rank3", "LayerNormalization", (2, 3, 6))
    case("layer_norm/rank4", "LayerNormalization", (2, 3, 2, 5))
    case("layer_norm/no_scale", "LayerNormalization", (4, 7), scale=False)
    case("layer_norm/no_center", "LayerNormalization", (4, 7), center=False)
    case("layer_norm/plain", "LayerNormalization", (4, 7), scale=False,
         center=False)
    case("layer_norm/epsilon", "LayerNormalization", (4, 7), epsilon=1e-6)
    case("layer_norm/axes", "LayerNormalization", (3, 4, 5), axis=(-2, -1))


def activations(case):
    wide = np.concatenate([
        common.normal(common.rng("activation"), (6, 5)),
        np.array([[-30, -9, -2.5, 2.5, 9, 30]], np.float32).T], 1)
    for a in ("relu", "softmax", "sigmoid", "tanh", "gelu", "silu", "elu",
              "softplus", "leaky_relu"):
        note = {"gelu": "exact, by erf: the default of the name in Keras",
                "leaky_relu": "slope 0.2: the default of the name in Keras"}
        case(f"activation/{a}", "Activation", wide, activation=a,
             note=note.get(a))
    case("activation/gelu_tanh", "Activation", wide, activation="gelu_tanh",
         build=lambda: L.Activation(
             lambda x: keras.activations.gelu(x, approximate=True)),
         note="keras.activations.gelu(x, approximate=True)")
    case("activation/leaky_relu_layer", "LeakyReLU", wide)
    case("activation/leaky_relu_slope", "LeakyReLU", wide, negative_slope=0.05)
    case("activation/elu_alpha", "ELU", wide, alpha=0.5)
    case("activation/relu_layer", "ReLU", wide)
    case("activation/softmax_rank3", "Activation", (2, 3, 5),
         activation="softmax")
    case("activation/softmax_axis1", "Softmax", (2, 3, 5), axis=1)
    zeros = np.array([[0, -1, 1], [2, 0, -2]], np.float32)
    for a in ("relu", "leaky_relu", "elu"):
        case(f"activation/{a}_at_zero", "Activation", zeros, activation=a,
             note="the gradient at exactly 0")


def pooling(case):
    for kind in ("Max", "Average"):
        low = kind.lower()
        for padding in ("same", "valid"):
            for pool, strides in ((2, None), (3, None), (3, 2), (2, 1),
                                  ((2, 3), (1, 2)), (2, 3)):
                p = pool if isinstance(pool, int) else "%dx%d" % pool
                s = ("" if strides is None else f"_stride{strides}"
                     if isinstance(strides, int) else "_stride%dx%d" % strides)
                case(f"{low}_pooling/{padding}_{p}{s}", f"{kind}Pooling2D",
                     (2, 7, 8, 3), pool_size=pool, strides=strides,
                     padding=padding)
        case(f"{low}_pooling/global", f"Global{kind}Pooling2D", (2, 4, 3, 5))
        case(f"{low}_pooling/global_keepdims", f"Global{kind}Pooling2D",
             (2, 4, 3, 5), keepdims=True)


def merging(case):
    for name in ("Add", "Multiply"):
        low = name.lower()
        case(f"{low}/two", name, (3, 5), (3, 5))
        case(f"{low}/three_rank4", name, *[(2, 3, 2, 4)] * 3)
        case(f"{low}/broadcast", name, (3, 1, 4), (3, 5, 4))
    case("concatenate/last", "Concatenate", (3, 5), (3, 2))
    case("concatenate/last_rank4", "Concatenate", (2, 3, 2, 1), (2, 3, 2, 4),
         (2, 3, 2, 3))
    case("concatenate/axis1", "Concatenate", (2, 3, 4), (2, 1, 4), axis=1)
    case("concatenate/axis1_rank4", "Concatenate", (2, 3, 2, 3), (2, 2, 2, 3),
         axis=1)


def transposed_convolutions(case):
    for padding in ("same", "valid"):
        for strides in (1, 2, 3, (1, 2)):
            for k in (1, 2, 3, (4, 5)):
                n = k if isinstance(k, int) else "%dx%d" % k
                s = strides if isinstance(strides, int) else "%dx%d" % strides
                case(f"conv2d_transpose/{padding}_stride{s}_k{n}",
                     "Conv2DTranspose", (2, 4, 3, 3), filters=2,
                     kernel_size=k, strides=strides, padding=padding)
        for k in (2, 3, 5):
            for more in (0, 1, (0, 2)):
                m = more if isinstance(more, int) else "%dx%d" % more
                case(f"conv2d_transpose/{padding}_k{k}_output_padding{m}",
                     "Conv2DTranspose", (2, 3, 4, 2), filters=3, kernel_size=k,
                     strides=3, padding=padding, output_padding=more)
            case(f"conv1d_transpose/{padding}_k{k}", "Conv1DTranspose",
                 (2, 5, 3), filters=4, kernel_size=k, strides=2,
                 padding=padding)
            case(f"conv1d_transpose/{padding}_k{k}_output_padding1",
                 "Conv1DTranspose", (2, 5, 3), filters=4, kernel_size=k,
                 strides=2, padding=padding, output_padding=1)
        case(f"conv2d_transpose/{padding}_dilation2", "Conv2DTranspose",
             (2, 4, 5, 2), filters=3, kernel_size=3, dilation_rate=2,
             padding=padding)
        case(f"conv1d_transpose/{padding}_dilation3", "Conv1DTranspose",
             (2, 4, 2), filters=3, kernel_size=2, dilation_rate=3,
             padding=padding)
    case("conv2d_transpose/no_bias_relu", "Conv2DTranspose", (1, 3, 3, 2),
         filters=2, kernel_size=2, strides=2, use_bias=False,
         activation="relu")
    case("conv2d_transpose/many_channels", "Conv2DTranspose", (2, 5, 4, 20),
         filters=18, kernel_size=3, strides=2, padding="same")


def volumes(case):
    for padding in ("same", "valid"):
        for stride in (1, 2, (1, 2, 3), (3, 1, 2)):
            for k in (3, (2, 1, 3), (1, 3, 2)):
                n = k if isinstance(k, int) else "%dx%dx%d" % k
                s = stride if isinstance(stride, int) else "%dx%dx%d" % stride
                case(f"conv3d/{padding}_stride{s}_k{n}", "Conv3D",
                     (2, 4, 5, 3, 2), filters=3, kernel_size=k,
                     strides=stride, padding=padding)
        case(f"conv3d/{padding}_dilation2", "Conv3D", (1, 6, 5, 5, 2),
             filters=3, kernel_size=(3, 2, 3), dilation_rate=2, padding=padding)
        case(f"conv3d/{padding}_dilation1x2x3", "Conv3D", (1, 3, 4, 7, 2),
             filters=2, kernel_size=2, dilation_rate=(1, 2, 3), padding=padding)
        case(f"conv3d/{padding}_groups2", "Conv3D", (2, 3, 4, 3, 4), filters=6,
             kernel_size=3, groups=2, padding=padding)
        case(f"conv3d/{padding}_groups3_stride2", "Conv3D", (1, 4, 5, 4, 3),
             filters=6, kernel_size=2, strides=2, groups=3, padding=padding)
        for stride in (1, 2, (3, 1, 2)):
            for k in (1, 3, (2, 4, 1), (1, 2, 3)):
                n = k if isinstance(k, int) else "%dx%dx%d" % k
                s = stride if isinstance(stride, int) else "%dx%dx%d" % stride
                case(f"conv3d_transpose/{padding}_stride{s}_k{n}",
                     "Conv3DTranspose", (1, 3, 2, 3, 2), filters=3,
                     kernel_size=k, strides=stride, padding=padding)
        for more in (0, 1, (2, 0, 1)):
            m = more if isinstance(more, int) else "%dx%dx%d" % more
            case(f"conv3d_transpose/{padding}_output_padding{m}",
                 "Conv3DTranspose", (1, 2, 3, 2, 2), filters=2,
                 kernel_size=(2, 3, 4), strides=3, padding=padding,
                 output_padding=more)
        case(f"conv3d_transpose/{padding}_dilation2", "Conv3DTranspose",
             (1, 3, 4, 3, 2), filters=2, kernel_size=(3, 2, 2),
             dilation_rate=(2, 1, 3), padding=padding)
    case("conv3d/no_bias_relu", "Conv3D", (2, 3, 4, 5, 2), filters=3,
         kernel_size=2, use_bias=False, activation="relu")
    case("conv3d/one_by_one", "Conv3D", (2, 3, 2, 4, 5), filters=4,
         kernel_size=1)
    case("conv3d/kernel_over_volume", "Conv3D", (1, 2, 3, 2, 2), filters=2,
         kernel_size=5, padding="same")
    case("conv3d/many_channels", "Conv3D", (1, 4, 5, 4, 20), filters=18,
         kernel_size=3, padding="same")
    case("conv3d_transpose/no_bias_relu", "Conv3DTranspose", (1, 2, 3, 2, 3),
         filters=2, kernel_size=2, strides=2, use_bias=False,
         activation="relu")
    ties = common.rng("ties").integers(0, 3, (2, 5, 4, 5, 2)).astype(np.float32)
    for kind in ("Max", "Average"):
        low = kind.lower()
        for padding in ("same", "valid"):
            for pool, strides in ((2, None), (3, 2), (2, 1), ((2, 1, 3), None),
                                  ((1, 2, 2), (1, 2, 1)), (2, (3, 1, 2)),
                                  ((3, 2, 1), (1, 2, 2))):
                p = pool if isinstance(pool, int) else "%dx%dx%d" % pool
                s = ("" if strides is None else f"_stride{strides}"
                     if isinstance(strides, int) else "_stride%dx%dx%d" % strides)
                case(f"{low}_pooling3d/{padding}_{p}{s}", f"{kind}Pooling3D",
                     (2, 5, 4, 5, 2), pool_size=pool, strides=strides,
                     padding=padding)
            case(f"{low}_pooling3d/{padding}_ties", f"{kind}Pooling3D", ties,
                 pool_size=3, strides=1, padding=padding,
                 note="windows that overlap, with equal elements")
        case(f"{low}_pooling3d/global", f"Global{kind}Pooling3D",
             (2, 3, 4, 2, 3))
        case(f"{low}_pooling3d/global_keepdims", f"Global{kind}Pooling3D",
             (2, 3, 4, 2, 3), keepdims=True)
    for name, sides in (("one", 1), ("each", (2, 0, 1)),
                        ("sides", ((0, 1), (2, 1), (1, 3))),
                        ("none", ((0, 0), (0, 0), (0, 0)))):
        case(f"zero_padding3d/{name}", "ZeroPadding3D", (2, 3, 2, 4, 2),
             padding=sides)
        case(f"cropping3d/{name}", "Cropping3D", (2, 5, 4, 6, 2),
             cropping=sides)
    for size in (2, (3, 1, 2)):
        n = size if isinstance(size, int) else "%dx%dx%d" % size
        case(f"up_sampling3d/{n}", "UpSampling3D", (2, 3, 2, 2, 3),
             size=size if isinstance(size, tuple) else (size,) * 3)


def small_layers(case):
    case("identity/rank3", "Identity", (2, 3, 4))
    case("repeat_vector/three", "RepeatVector", (2, 5), n=3)
    case("repeat_vector/once", "RepeatVector", (2, 5), n=1)
    for name, sides in (("one", 1), ("sides", (2, 0)), ("none", (0, 0))):
        case(f"zero_padding1d/{name}", "ZeroPadding1D", (2, 5, 3), padding=sides)
        case(f"cropping1d/{name}", "Cropping1D", (2, 5, 3), cropping=sides)
    case("up_sampling1d/two", "UpSampling1D", (2, 4, 3))
    case("up_sampling1d/three", "UpSampling1D", (2, 1, 3), size=3)
    for height, width in ((3, 4), (4, 3), (6, 7), (1, 1)):
        case(f"center_crop/{height}x{width}", "CenterCrop", (2, 6, 7, 2), height=height, width=width)
    case("unit_norm/rank2", "UnitNormalization", (4, 7))
    case("unit_norm/axis1", "UnitNormalization", (2, 3, 4), axis=1)
    case("unit_norm/axes", "UnitNormalization", (2, 3, 4, 5), axis=(1, -1))
    case("activity_regularization/both", "ActivityRegularization", (3, 5), l1=0.1, l2=0.2)
    case("spatial_dropout/inference1d", "SpatialDropout1D", (2, 3, 4), rate=0.5)
    case("spatial_dropout/inference2d", "SpatialDropout2D", (2, 3, 2, 4), rate=0.5)
    case("spatial_dropout/inference3d", "SpatialDropout3D", (2, 3, 2, 2, 4), rate=0.5)
    case("gaussian_dropout/inference", "GaussianDropout", (3, 5), rate=0.5)
    case("alpha_dropout/inference", "AlphaDropout", (3, 5), rate=0.5)


def products(case):
    for name, shape, equation, size, bias in (
            ("heads", (2, 3, 4), "abc,cde->abde", (3, 2, 5), "de"),
            ("joined", (2, 3, 2, 5), "abcd,cde->abe", (3, 4), "e"),
            ("joined_2d", (2, 3, 2, 5), "abcd,cdef->abef", (3, 2, 4), None),
            ("llama", (2, 3, 4), "bqm,muh->bquh", (3, 2, 5), None),
            ("gemma", (2, 3, 4), "btd,ndh->btnh", (3, 2, 5), None),
            ("transposed", (2, 3, 4), "abc,dc->abd", (3, 5), "d"),
            ("moved", (2, 3, 4), "abc,db->acd", (4, 5), "d"),
            ("turned", (2, 3, 4), "abc,cd->adb", (5, 3), "d"),
            ("crossed", (2, 3, 4, 2), "abcd,dbe->aec", (5, 4), "ec"),
            ("bias_apart", (2, 3, 4), "abc,cd->abd", (3, 5), "bd"),
            ("bias_of_rows", (2, 3, 4), "abc,cde->adbe", (5, 3, 2), "de"),
            ("outer", (2, 3), "ab,cd->abcd", (3, 4, 2), None),
            ("summed", (2, 3, 4), "abc,cd->ad", (5,), "d"),
            ("left", (2, 3, 4), "...x,xy->...y", (5,), "y"),
            ("left_only_batch", (2, 4), "...x,xy->...y", (5,), "y"),
            ("left_more", (2, 2, 3, 4), "...ab,bc->...ac", (3, 5), "ac"),
            ("right", (2, 3, 4), "ab...,bc->ac...", (5,), "c"),
            ("right_more", (2, 3, 4, 2), "ab...,bc->ac...", (5,), None)):
        case(f"einsum_dense/{name}", "EinsumDense", shape, equation=equation, output_shape=size, bias_axes=bias)
    case("einsum_dense/activation", "EinsumDense", (2, 3, 4), equation="abc,cd->abd", output_shape=(3, 5),
         bias_axes="d", activation="softmax")
    for name, x, y, axes in (("rank2", (3, 4), (3, 4), (1, 1)), ("rank2_3", (3, 4), (3, 2, 4), (1, 2)),
                             ("rank3_2", (3, 4, 2), (3, 4), (1, 1)), ("last", (2, 3, 4), (2, 5, 4), (2, 2)),
                             ("middle", (2, 3, 4), (2, 3, 5), (1, 1)), ("mixed", (2, 3, 4), (2, 4, 5), (-1, 1)),
                             ("rank4", (2, 3, 4, 2), (2, 5, 4, 3), (2, 2)), ("rank4_3", (2, 3, 4, 2), (2, 5, 3), (1, -1))):
        case(f"dot/{name}", "Dot", x, y, axes=axes)
        if name in ("rank2", "mixed", "rank4"):
            case(f"dot/{name}_normalized", "Dot", x, y, axes=axes, normalize=True)
    for padding in ("same", "valid"):
        for stride, dilation, multiplier in ((1, 1, 1), (2, 1, 3), (1, 2, 2)):
            name = f"{padding}_stride{stride}_dilation{dilation}_times{multiplier}"
            options = dict(kernel_size=3, strides=stride, dilation_rate=dilation, depth_multiplier=multiplier, padding=padding)
            case(f"depthwise_conv1d/{name}", "DepthwiseConv1D", (2, 8, 3), **options)
            case(f"separable_conv1d/{name}", "SeparableConv1D", (2, 8, 3), filters=4, **options)
    case("depthwise_conv1d/no_bias_relu", "DepthwiseConv1D", (2, 5, 4), kernel_size=2, use_bias=False, activation="relu")
    case("separable_conv1d/no_bias_tanh", "SeparableConv1D", (2, 5, 4), filters=3, kernel_size=2, use_bias=False,
         activation="tanh")


def adaptive_pools(case):
    for kind in ("Average", "Max"):
        for dims, shape, sizes in ((1, (2, 8, 3), (3, 4, 11)), (2, (2, 7, 6, 2), ((4, 3),)),
                                   (3, (2, 5, 4, 3, 2), ((3, 2, 2),))):
            for size in sizes:
                name = size if dims == 1 else "x".join(map(str, size))
                case(f"adaptive_{kind.lower()}_pooling{dims}d/{name}", f"Adaptive{kind}Pooling{dims}D", shape, output_size=size)


def plain_attention(case):
    def call(**named):
        return lambda layer, x: layer(list(x), **named)

    def both(name, layer, *shapes, **options):
        case(f"{layer.lower()}/{name}", layer, *shapes, call=call(), **options)
        case(f"{layer.lower()}/{name}_causal", layer, *shapes, call=call(use_causal_mask=True),
             called=dict(use_causal_mask=True), **options)

    both("dot", "Attention", (2, 4, 3), (2, 5, 3))
    both("scale", "Attention", (2, 4, 3), (2, 5, 6), (2, 5, 3), use_scale=True)
    both("concat", "Attention", (2, 4, 3), (2, 5, 3), score_mode="concat")
    both("concat_scale", "Attention", (2, 3, 3), (2, 5, 2), (2, 5, 3), score_mode="concat", use_scale=True)
    both("plain", "AdditiveAttention", (2, 4, 3), (2, 5, 3))
    both("key", "AdditiveAttention", (2, 4, 3), (2, 3, 2), (2, 3, 3))
    both("no_scale", "AdditiveAttention", (2, 4, 3), (2, 5, 3), use_scale=False)
    case("attention/weights", "Attention", (2, 4, 3), (2, 5, 3), call=lambda layer, x: layer(list(x), return_attention_scores=True)[0],
         called=dict(return_attention_scores=True))


def further_activations(case):
    wide = np.concatenate([
        common.normal(common.rng("further_activations"), (6, 5)),
        np.array([[-90, -1.5, -0.25, 0.75, 20, 90]], np.float32).T], 1)
    for a in ("celu", "hard_shrink", "hard_tanh", "soft_shrink", "sparse_plus", "sparse_sigmoid", "squareplus",
              "tanh_shrink"):
        case(f"activation/{a}", "Activation", wide, activation=a)


def conv_lstm(case):
    def with_state(layer, x):
        return layer(x[0], initial_state=list(x[1:]))

    two, one = "ConvLSTM2D", "ConvLSTM1D"
    case("conv_lstm2d/last", two, (2, 3, 5, 4, 2), filters=3, kernel_size=3, padding="same")
    case("conv_lstm2d/sequences", two, (2, 4, 4, 5, 3), filters=2, kernel_size=(3, 2), return_sequences=True)
    case("conv_lstm2d/even", two, (2, 3, 4, 5, 1), filters=2, kernel_size=(2, 4), padding="same",
         return_sequences=True)
    case("conv_lstm2d/strides", two, (2, 3, 6, 7, 2), filters=2, kernel_size=3, strides=(2, 3), padding="same",
         return_sequences=True)
    case("conv_lstm2d/dilation", two, (2, 3, 6, 7, 2), filters=2, kernel_size=(2, 3), dilation_rate=(3, 2),
         use_bias=False)
    case("conv_lstm2d/backwards", two, (2, 3, 4, 4, 2), filters=2, kernel_size=3, padding="same", go_backwards=True,
         return_sequences=True, activation="relu", recurrent_activation="hard_sigmoid")
    case("conv_lstm2d/one_pixel", two, (3, 4, 1, 1, 2), filters=3, kernel_size=1, return_sequences=True)
    case("conv_lstm2d/initial_state", two, (2, 3, 5, 4, 2), (2, 3, 2, 3), (2, 3, 2, 3), filters=3, kernel_size=3,
         call=with_state)
    case("conv_lstm1d/last", one, (2, 3, 5, 2), filters=3, kernel_size=3, padding="same")
    case("conv_lstm1d/sequences", one, (2, 4, 7, 3), filters=2, kernel_size=2, strides=2, return_sequences=True)
    case("conv_lstm1d/initial_state", one, (2, 3, 5, 2), (2, 3, 3), (2, 3, 3), filters=3, kernel_size=3,
         go_backwards=True, return_sequences=True, call=with_state)


def cells(case):
    for cell in (L.LSTMCell, L.GRUCell, L.SimpleRNNCell):
        low = cell.__name__
        case(f"rnn/{low}", "RNN", (3, 5, 4), cell=cell(6))
        case(f"rnn/{low}_sequences", "RNN", (3, 5, 4), cell=cell(3, activation="relu", use_bias=False),
             return_sequences=True, go_backwards=True)


def augmentation(case):
    """Layers in training whose ranges hold one number, so that nothing is random."""
    image, here = (3, 6, 5, 2), dict(training=True)
    for mode in ("reflect", "wrap", "constant", "nearest"):
        case(f"random_translation/{mode}", "RandomTranslation", image, height_factor=(0.25, 0.25),
             width_factor=(-0.625, -0.625), fill_mode=mode, fill_value=0.5, **here)
        case(f"random_rotation/{mode}", "RandomRotation", image, factor=(0.15, 0.15), fill_mode=mode, fill_value=0.5,
             **here)
        case(f"random_zoom/{mode}", "RandomZoom", image, height_factor=(0.875, 0.875), width_factor=(-0.5, -0.5),
             fill_mode=mode, fill_value=0.5, **here)
    case("random_rotation/nearest_pixel", "RandomRotation", image, factor=(-0.4, -0.4), interpolation="nearest",
         fill_mode="constant", **here)
    case("random_zoom/both", "RandomZoom", image, height_factor=(-0.375, -0.375), **here)
    case("random_translation/inference", "RandomTranslation", image, height_factor=0.5, width_factor=0.5)
    case("random_flip/inference", "RandomFlip", image, mode="vertical")
    case("random_shear/inference", "RandomShear", image, x_factor=0.5, y_factor=0.25)
    case("random_crop/middle", "RandomCrop", (2, 4, 7, 3), height=4, width=4, **here)
    case("random_contrast/clipped", "RandomContrast", image, factor=(-0.75, 0.75), value_range=(-2, 1), **here)
    case("random_brightness/clipped", "RandomBrightness", image, factor=(0.25, 0.25), value_range=(-1, 2), **here)
    case("random_invert/all", "RandomInvert", image, factor=(1.0, 1.0), value_range=(-1, 2), **here)
    case("random_erasing/all", "RandomErasing", image, factor=(1.0, 1.0), scale=(1.0, 1.0), fill_value=0.75,
         value_range=(-1, 2), **here)
    case("random_erasing/none", "RandomErasing", image, factor=(0.0, 0.0), **here)


FILES = {
    "layers.h5": (simple, dense, conv2d, batch_norm, layer_norm, activations,
                  pooling, merging),
    "layers_more.h5": (more_convolutions, images, sequences, group_norm,
                       other_axes, more_activations, more_merging),
    "layers_attention.h5": (attention,),
    "layers_activations.h5": (new_activations,),
    "layers_language.h5": (rms_norm, grouped_attention),
    "layers_recurrent.h5": (recurrent, bidirectional, time_distributed, masking),
    "layers_images.h5": (conv_lstm, cells, augmentation),
    "layers_transpose.h5": (transposed_convolutions,),
    "layers_volumes.h5": (volumes,),
    "layers_further.h5": (small_layers, products, adaptive_pools, plain_attention, further_activations),
    "layers_applications.h5": (normalization, of_applications),
}
if __name__ == "__main__":
    for name in sys.argv[1:] or FILES:
        with common.File(name) as file:
            for family in FILES[name]:
                family(Writer(file))
