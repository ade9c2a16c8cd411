"""several.h5: models with two inputs and two outputs by Keras's compile, fit,
evaluate and predict, in float64.

    python make_several.py        (see README.md for the format)

Five steps (37 rows in batches of 8, unshuffled, the last of 5), then evaluate and
predict in batches of 10. Weights and data come from the hash of make_training.py.
"""

import common
import numpy as np
from make_training import hashed, initial

ROWS, BATCH, TEST_BATCH = 37, 8, 10
L2 = 0.01


def network(keras):
    layers = keras.layers
    a, b = keras.Input((5,), name="a"), keras.Input((3,), name="b")
    x = layers.Dense(7, activation="tanh", name="left",
                     kernel_regularizer=keras.regularizers.L2(L2))(a)
    z = layers.Dense(4, activation="relu", name="right")(b)
    both = layers.Concatenate(name="both")([x, z])
    return keras.Model([a, b], [layers.Dense(3, name="kind")(both),
                                layers.Dense(2, name="place")(both)])


def cases(keras):
    """name -> (arguments of compile, "none", "one" or "each" sample weights)"""
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return {
        "loss_weights": (dict(loss=[logits, "mse"], loss_weights=[1.0, 0.3],
                              metrics=[["accuracy"], ["mae", "mse"]]), "none"),
        "one_loss": (dict(loss="mae", metrics=[[], ["mse"]]), "none"),
        "weights_each": (dict(loss=[logits, "mse"], loss_weights=[0.5, 2.0],
                              metrics=[["accuracy"], ["mae"]],
                              weighted_metrics=[["accuracy"], ["mse"]]), "each"),
        "weights_one": (dict(loss=[logits, "mae"],
                             weighted_metrics=[["accuracy"], ["mse"]]), "one"),
        "no_loss": (dict(loss=[logits, None], metrics=[["accuracy"], ["mae"]]),
                    "none"),
    }


def data(name):
    """Inputs, targets, sample weights; all float32 or int32."""
    x = [hashed(100, (ROWS, 5), 1.0), hashed(101, (ROWS, 3), 2.0)]
    kinds = (np.arange(ROWS) * 7 % 3).astype(np.int32)
    places = hashed(102, (ROWS, 2), 1.5)
    weights = [(np.arange(ROWS) % 4 / 2).astype(np.float32),
               (1 + np.arange(ROWS) % 3).astype(np.float32)]
    if name == "one_loss":
        return x, [hashed(103, (ROWS, 3), 1.0), places], weights
    return x, [kinds, places], weights


def run(keras, name, compiled, weighting):
    keras.backend.clear_session()
    model = network(keras)
    for v, variable in enumerate(model.weights):
        variable.assign(initial(v, variable))
    model.compile(optimizer=keras.optimizers.Adam(0.01), **compiled)
    x, y, weights = data(name)
    given = {"none": None, "one": weights[0], "each": weights}[weighting]
    steps = []

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            steps.append(dict(logs))

    model.fit(x, y, sample_weight=given, batch_size=BATCH, shuffle=False,
              verbose=0, callbacks=[Keep()])
    test = model.evaluate(x, y, sample_weight=given, batch_size=TEST_BATCH,
                          verbose=0, return_dict=True)
    predicted = model.predict(x, batch_size=TEST_BATCH, verbose=0)
    names = list(steps[-1])
    assert set(names) == set(test)
    return dict(
        steps=np.array([[s[n] for n in names] for s in steps]),
        evaluate=np.array([float(test[n]) for n in names]),
        x0=x[0], x1=x[1], y0=y[0], y1=y[1], w0=weights[0], w1=weights[1],
        p0=np.asarray(predicted[0], np.float64),
        p1=np.asarray(predicted[1], np.float64),
        **{f"v{v}": np.asarray(initial(v, variable), np.float32)
           for v, variable in enumerate(model.weights)}), {
        "names": ",".join(names), "weighting": weighting,
        "variables": ",".join(v.path for v in model.weights), "l2": L2}


def main():
    keras = common.keras_on_jax("float64")
    with common.File("several.h5") as file:
        for name, (compiled, weighting) in cases(keras).items():
            arrays, head = run(keras, name, compiled, weighting)
            file.case(name, head, **arrays)
            print(name, head["names"], arrays["steps"][-1], flush=True)


if __name__ == "__main__":
    main()
