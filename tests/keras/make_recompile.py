"""recompile.h5: a model that is compiled, trained, frozen or unfrozen, compiled
again with another loss and metrics, and trained on, by Keras, in float64.

    python make_recompile.py        (see README.md for the format)

Two epochs (20 rows in batches of 8, unshuffled, the last of 4) of each phase.
Weights and data come from the hash of make_training.py. Where a case has `keeps`,
the second optimizer, a new object, is built for all variables that are trained
then and given the iterations and slots of the first: Keras itself has no way to go
on with an optimizer when other variables are trained.
"""

import common
import numpy as np
from make_training import hashed, initial

ROWS, BATCH, EPOCHS = 20, 8, 2
L2 = 0.01


def network(keras):
    layers = keras.layers
    x = inputs = keras.Input((6,), name="x")
    x = layers.Dense(8, activation="relu", name="d1",
                     kernel_regularizer=keras.regularizers.L2(L2))(x)
    x = layers.BatchNormalization(name="bn")(x)
    x = layers.Dense(5, activation="tanh", name="d2",
                     kernel_regularizer=keras.regularizers.L2(L2))(x)
    return keras.Model(inputs, layers.Dense(3, name="d3")(x))


def cases(keras):
    """name -> (frozen layers of each phase, optimizer of each, keeps)"""
    o = keras.optimizers
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    return {
        "other_rule": ((["d1", "bn"], []),
                       (o.SGD(0.05, momentum=0.9), o.Adam(0.01)), False),
        "same_rule": ((["d1", "bn"], []), (o.Adam(0.01), o.Adam(0.003)), True),
        "reset": ((["d1", "bn"], []), (o.Adam(0.01), o.Adam(0.003)), False),
        "freeze": (([], ["d1", "bn"]), (o.Adam(0.01), o.Adam(0.02)), True),
        "new_slot": ((["d2"], ["d1"]),
                     (o.Adam(0.01), o.Adam(0.01, amsgrad=True)), True),
        "schedule": ((["bn"], []), (o.SGD(0.1, momentum=0.8),
                                    o.SGD(decay, momentum=0.9)), True),
    }


def give(old, new, before, after):
    """The state of `old`, which trained `before`, to `new`, which trains `after`."""
    new.build(after)
    new.iterations.assign(old.iterations)

    def slots(optimizer, variables):
        found = {}
        for kind in ("_momentums", "_velocities", "_velocity_hats", "momentums"):
            for v, slot in zip(variables, getattr(optimizer, kind, [])):
                found[kind.strip("_"), v.path] = slot
        return found
    had = slots(old, before)
    for key, slot in slots(new, after).items():
        if key in had:
            slot.assign(had[key])


def train(model, x, y):
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False,
                        verbose=0).history
    return np.array([[history[name][e] for name in history]
                     for e in range(EPOCHS)]), list(history)


def run(keras, frozen, optimizers, keeps):
    keras.backend.clear_session()
    model = network(keras)
    for v, variable in enumerate(model.weights):
        variable.assign(initial(v, variable))
    start = {f"v{v}": np.asarray(initial(v, variable), np.float32)
             for v, variable in enumerate(model.weights)}
    x, y = hashed(100, (ROWS, 6), 1.0), hashed(101, (ROWS, 3), 1.5)
    out, names, before = {}, [], None
    for phase in range(2):
        for layer in model.layers:
            layer.trainable = layer.name not in frozen[phase]
        now = list(model.trainable_variables)
        if phase and keeps:
            give(optimizers[0], optimizers[1], before, now)
        before = now
        model.compile(optimizer=optimizers[phase], loss="mae" if phase else "mse",
                      metrics=["mse"] if phase else ["mae"])
        out[f"logs{phase}"], head = train(model, x, y)
        names.append(",".join(head))
        out.update({f"w{phase}_{v}": np.asarray(variable.value, np.float64)
                    for v, variable in enumerate(model.weights)})
    return dict(x=x, y=y, **start, **out), {
        "variables": ",".join(v.path for v in model.weights), "l2": L2,
        "frozen0": ",".join(frozen[0]), "frozen1": ",".join(frozen[1]),
        "keeps": keeps, "names0": names[0], "names1": names[1]}


def main():
    keras = common.keras_on_jax("float64")
    with common.File("recompile.h5") as file:
        for name, case in cases(keras).items():
            arrays, head = run(keras, *case)
            file.case(name, head, **arrays)
            print(name, head["names1"], arrays["logs1"][-1], flush=True)


if __name__ == "__main__":
    main()
