"""A network of networks.py in Keras on JAX, by model.fit(): network_keras.py --folder FOLDER --name NAME"""

import os

os.environ["KERAS_BACKEND"] = "jax"
import job  # noqa: E402

args = job.network_options()
import keras  # noqa: E402

import networks  # noqa: E402

x, y = networks.data(args.folder, args.name)
model = keras.saving.load_model(f"{args.folder}/{args.name}.keras")
clock = job.Clock()


class Timer(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        clock.step_done()

    def on_epoch_begin(self, epoch, logs=None):
        clock.__enter__()

    def on_epoch_end(self, epoch, logs=None):
        clock.__exit__()


history = model.fit(x, y, batch_size=networks.NETWORKS[args.name].batch, epochs=args.epochs, verbose=0, callbacks=[Timer()])
clock.report(len(x), loss=history.history["loss"][-1])
