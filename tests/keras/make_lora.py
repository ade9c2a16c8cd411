"""lora.h5: layers with enable_lora: outputs, and gradients of the input and of both matrices, in float64.

    python make_lora.py        (see README.md for the format)
"""

import common

keras = common.keras_on_jax("float64")

import jax
import jax.numpy as jnp
import numpy as np

L = keras.layers
# name: the layer, the shape of its input (of integers below the last argument), rank, alpha
CASES = {
    "dense/plain": (lambda: L.Dense(5, activation="tanh"), (4, 3, 7), 0, 2, None),
    "dense/alpha": (lambda: L.Dense(6, use_bias=False), (4, 7), 0, 3, 5),
    "einsum_dense/query": (lambda: L.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"), (4, 3, 5), 0, 2, 7),
    "einsum_dense/output": (lambda: L.EinsumDense("abde,def->abf", (None, 6), bias_axes="f"), (4, 3, 2, 5), 0, 3, None),
    "einsum_dense/ellipsis": (lambda: L.EinsumDense("...x,xy->...y", (3, 4)), (5, 3, 6), 0, 1, 2),
    "embedding/plain": (lambda: L.Embedding(9, 4), (5, 3), 9, 2, 6),
}


with common.File("lora.h5") as file:
    for name, (make, shape, indices, rank, alpha) in CASES.items():
        g, layer = common.rng(name), make()
        layer.build(shape)
        layer.enable_lora(rank, **({} if alpha is None else {"lora_alpha": alpha}))
        for v in layer.weights:
            v._dtype = "float64"  # Keras has matrices of float32, whatever floatx is
        x = g.integers(0, indices, shape).astype(np.int32) if indices else common.normal(g, shape)
        weights = {v.path.split("/")[-1]: common.normal(g, v.shape) for v in layer.weights}
        trained, frozen = layer.trainable_variables, layer.non_trainable_variables
        names = [v.path.split("/")[-1] for v in trained]

        def run(values, x):
            return layer.stateless_call(values, [jnp.asarray(weights[v.path.split("/")[-1]], jnp.float64) for v in frozen], x)[0]

        values = [jnp.asarray(weights[n], jnp.float64) for n in names]
        y = run(values, jnp.asarray(x) if indices else jnp.asarray(x, jnp.float64))
        dy = common.normal(g, y.shape)
        gradients = jax.grad(lambda values: (run(values, jnp.asarray(x) if indices else jnp.asarray(x, jnp.float64)) * dy).sum())(values)
        config = layer.get_config()
        head = dict(kind=name.split("/")[0], rank=rank, alpha=alpha or rank)
        head.update(units=config.get("units", 0), equation=config.get("equation", ""), activation=config.get("activation") or "linear",
                    use_bias="bias" in weights, bias_axes=config.get("bias_axes") or "")
        file.case(name, head, x=x, dy=dy, y=np.asarray(y), **weights,
                  **{f"d{n}": np.asarray(gradient) for n, gradient in zip(names, gradients)})
