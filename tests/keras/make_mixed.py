"""mixed.h5: 20 steps of networks by Keras under the policy mixed_bfloat16.

    python make_mixed.py        (see README.md for the format)

The guide networks mlp and convnet and their rows are those of make_training.py,
and so are the weights. `transformer` takes 64 rows of 12 tokens a batch: token i of
row r of all rows is (r * 7 + i * (r % 5 + 3)) % 17, and the label (sum of the
row's tokens) % 10. In it, a gamma is 1 and other vectors are 0.

Each network is trained three times: under the policy; in float32; and under the
policy once more from weights of which each is moved by 2^-9 of its value, up or
down by turns (the `_moved` datasets). What the last two differ by tells how far a
rounding carries.
"""

import common
import make_training
import numpy as np

BATCH, TOKENS, WORDS, WIDTH = 64, 12, 17, 16
POLICY = "mixed_bfloat16"


def transformer(keras):
    layers = keras.layers
    inputs = keras.Input((TOKENS,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH, name="table")(inputs)
    y = layers.LayerNormalization(name="before")(x)
    y = layers.MultiHeadAttention(2, 8, name="heads")(y, y)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization(name="between")(x)
    y = layers.Dense(32, activation="gelu", name="wide")(y)
    x = layers.Add()([x, layers.Dense(WIDTH, name="narrow")(y)])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax",
                                            name="classes")(x))


def tokens(rows):
    r, i = np.arange(rows)[:, None], np.arange(TOKENS)[None]
    x = ((r * 7 + i * (r % 5 + 3)) % WORDS).astype(np.int32)
    return x, (x.sum(1) % 10).astype(np.int32)


def networks(keras):
    """name -> (model, loss, learning rate, batch, rows)"""
    losses = keras.losses.SparseCategoricalCrossentropy
    guides = make_training.networks(keras)
    steps = make_training.STEPS

    def guide(name):
        model, loss, optimizer, batch = guides[name]()
        x, y = make_training.fashion_mnist("train", steps * batch)
        return model, loss, 1e-3, batch, (x.astype(np.float32),
                                          y.astype(np.int32))
    return {
        "mlp": lambda: guide("mlp"),
        "convnet": lambda: guide("convnet"),
        "transformer": lambda: (transformer(keras), losses(), 1e-2, BATCH,
                                tokens(steps * BATCH)),
    }


def initial(v, variable, moved):
    value = make_training.initial(v, variable)
    if variable.name == "gamma":
        value = np.ones_like(value)
    if moved:
        turns = np.where(np.arange(value.size) % 2, 1, -1).reshape(value.shape)
        value = (value * (1 + turns * 2.0 ** -9)).astype(np.float32)
    return value


def train(keras, name, policy, moved=False):
    import jax
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
    model, loss, rate, batch, (x, y) = networks(keras)[name]()
    optimizer = keras.optimizers.Adam(rate)
    for v, variable in enumerate(model.weights):
        assert variable.dtype == "float32"
        variable.assign(initial(v, variable, moved))
    optimizer.build(model.trainable_variables)

    def compute(trained, fixed, x, y):
        outputs, fixed = model.stateless_call(trained, fixed, x, training=True)
        return loss(y, outputs), (fixed, outputs)

    @jax.jit
    def step(trained, fixed, state, x, y):
        (value, (fixed, outputs)), gradients = jax.value_and_grad(
            compute, has_aux=True)(trained, fixed, x, y)
        new, state = optimizer.stateless_apply(state, gradients, trained)
        return value, new, fixed, state, outputs, gradients

    now = [[v.value for v in vs] for vs in (model.trainable_variables,
                                            model.non_trainable_variables,
                                            optimizer.variables)]
    values, first = [], None
    for s in range(make_training.STEPS):
        rows = slice(s * batch, (s + 1) * batch)
        value, *now, outputs, gradients = step(*now, x[rows], y[rows])
        assert value.dtype == np.float32
        if first is None:
            first = outputs, gradients
        values.append(float(value))
    if policy == POLICY:
        assert str(first[0].dtype) == "bfloat16"
    return dict(
        losses=np.array(values),
        first_outputs=np.asarray(first[0], np.float64),
        first_gradient_norm=np.array(
            [np.sqrt((np.asarray(g, np.float64) ** 2).sum())
             for g in first[1]])), {
            "variables": ",".join(v.path for v in model.weights),
            "trainable": ",".join(v.path for v in model.trainable_variables),
            "batch": batch, "steps": make_training.STEPS,
            "learning_rate": rate}


def main():
    keras = common.keras_on_jax("float32")
    with common.File("mixed.h5") as file:
        for name in networks(keras):
            mixed, head = train(keras, name, POLICY)
            moved, _ = train(keras, name, POLICY, moved=True)
            single, _ = train(keras, name, "float32")
            data = {k: v for k, v in mixed.items()}
            data |= {k + "_f32": v for k, v in single.items()}
            data |= {k + "_moved": v for k, v in moved.items()}
            file.case(name, head, **data)

            def gap(other):
                return np.abs(other["losses"] - mixed["losses"]).max()
            print(f"{name}: loss {mixed['losses'][0]:.6f} to "
                  f"{mixed['losses'][-1]:.6f}; moved {gap(moved):.1e}, "
                  f"float32 {gap(single):.1e}", flush=True)


if __name__ == "__main__":
    main()
