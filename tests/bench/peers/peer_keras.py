"""Keras 3 on JAX, by model.fit() as its guides have it; two devices by its DataParallel distribution, or by ModelParallel with the
kernels cut: of Dense layers columns and rows in turn, of convolutions the filters."""

import os

import job

args = job.options(devices=(1, 2), parallel=("data", "model"))
os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.devices} " + os.environ.get("XLA_FLAGS", "")
if args.devices > 1:
    os.environ["NPROC"] = "4"  # see peer_jax.py

import keras
from keras import layers


def mlp():
    return [layers.Dense(256, activation="relu"), layers.Dense(256, activation="relu"), layers.Dense(10)]


def convnet():
    return [layers.Rescaling(1 / 255),
            layers.Conv2D(12, 3, padding="same", use_bias=False), layers.BatchNormalization(scale=False), layers.ReLU(),
            layers.Conv2D(24, 6, strides=2, use_bias=False), layers.BatchNormalization(scale=False), layers.ReLU(),
            layers.Conv2D(32, 6, padding="same", strides=2), layers.BatchNormalization(scale=False), layers.ReLU(),
            layers.GlobalAveragePooling2D(), layers.Dense(256, activation="relu"), layers.Dropout(0.5), layers.Dense(10)]


def model_parallel():
    mesh = keras.distribution.DeviceMesh((1, args.devices), ["data", "model"], keras.distribution.list_devices())
    layouts = keras.distribution.LayoutMap(mesh)
    layouts["sequential/dense/kernel"], layouts["sequential/dense/bias"] = (None, "model"), ("model",)
    layouts["sequential/dense_1/kernel"] = ("model", None)
    layouts["sequential/conv2d.*/kernel"] = (None, None, None, "model")
    return keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="data")


class Timer(keras.callbacks.Callback):
    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def on_epoch_begin(self, epoch, logs=None):
        self.clock.__enter__()

    def on_epoch_end(self, epoch, logs=None):
        self.clock.__exit__()


keras.utils.set_random_seed(0)
x, y, tx, ty = job.arrays(args)
if args.devices > 1:
    keras.distribution.set_distribution(keras.distribution.DataParallel() if args.parallel == "data" else model_parallel())
model = keras.Sequential([keras.Input(x.shape[1:]), *(mlp() if args.model == "mlp" else convnet())])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=[keras.metrics.SparseCategoricalAccuracy()])
if args.parallel == "model" and not any("model" in str(v.value.sharding.spec) for v in model.trainable_variables):
    raise SystemExit("no key of the layout map matches a variable: nothing is sharded")
clock = job.Clock()
model.fit(x[:args.batch], y[:args.batch], batch_size=args.batch, verbose=0)
clock.step_done()
model.fit(x, y, batch_size=args.batch, epochs=args.epochs, verbose=0, callbacks=[Timer(clock)])
clock.report(len(x), accuracy=model.evaluate(tx, ty, batch_size=500, verbose=0)[1])
