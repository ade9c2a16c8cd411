"""A perceptron or a GPT of networks.py in JAX without a library of layers. A perceptron's epoch is one compiled loop over data on the device, a
GPT's a compiled step a batch. In bfloat16 the weights are cast in each step: network_jax.py --folder FOLDER --name NAME [--dtype bfloat16]"""

import job
import networks

args = job.network_options(dtype=("float32", "bfloat16"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

n = networks.NETWORKS[args.name]
random = np.random.default_rng(0)
if n.kind not in ("mlp", "gpt"):
    raise SystemExit("only perceptrons and GPTs")


def dense(before, after, scale):
    return {"kernel": jnp.asarray(random.normal(0, scale, (before, after)), jnp.float32), "bias": jnp.zeros(after)}


def norm():
    return {"gamma": jnp.ones(n.width), "beta": jnp.zeros(n.width)}


def apply(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def normalise(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * layer["gamma"] + layer["beta"]


def mlp_weights():
    sizes = [784] + [n.width] * n.layers + [10]
    return [dense(a, b, a ** -0.5) for a, b in zip(sizes, sizes[1:])]


def mlp(weights, x):
    for layer in weights[:-1]:
        x = jax.nn.relu(apply(layer, x))
    return apply(weights[-1], x)


def gpt_weights():
    w = n.width
    blocks = [{"norm": norm(), "qkv": dense(w, 3 * w, 0.02), "out": dense(w, w, 0.02), "norm2": norm(), "up": dense(w, 4 * w, 0.02),
               "down": dense(4 * w, w, 0.02)} for _ in range(n.layers)]
    tables = {name: jnp.asarray(random.normal(0, 0.02, (size, w)), jnp.float32)
              for name, size in (("token", n.vocabulary), ("position", n.tokens))}
    return tables | {"blocks": blocks, "norm": norm()}


def block(layer, x):
    rows, tokens, width = x.shape
    q, k, v = (p.reshape(rows, tokens, n.heads, -1) for p in jnp.split(apply(layer["qkv"], normalise(layer["norm"], x)), 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // n.heads) ** -0.5
    scores = jnp.where(np.tri(tokens, dtype=bool), scores, -jnp.inf)
    h = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
    x = x + apply(layer["out"], h)
    return x + apply(layer["down"], jax.nn.gelu(apply(layer["up"], normalise(layer["norm2"], x)), approximate=False))


def gpt(weights, x):
    h = weights["token"][x] + weights["position"]
    for layer in weights["blocks"]:
        h = block(layer, h)
    return normalise(weights["norm"], h) @ weights["token"].T


network, weights = (mlp, mlp_weights()) if n.kind == "mlp" else (gpt, gpt_weights())
RATE, BETA, EPSILON, DECAY = (1e-3, 0.999, 1e-7, 0) if n.kind == "mlp" else (3e-4, 0.95, 1e-8, 0.1)


def loss_of(weights, x, y):
    weights = jax.tree.map(lambda w: w.astype(args.dtype), weights)
    logits = network(weights, x).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()


def step(state, x, y):
    weights, first, second, t, _ = state
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    t = t + 1
    first = jax.tree.map(lambda m, g: m + 0.1 * (g - m), first, gradients)
    second = jax.tree.map(lambda v, g: v + (1 - BETA) * (g * g - v), second, gradients)
    rate = RATE * jnp.sqrt(1 - BETA**t) / (1 - 0.9**t)
    weights = jax.tree.map(lambda w, m, v: w * (1 - RATE * DECAY) - rate * m / (jnp.sqrt(v) + EPSILON), weights, first, second)
    return weights, first, second, t, loss


x, y = (array.astype(np.int32) if array.dtype.kind == "i" else array for array in networks.data(args.folder, args.name))
state = (weights, jax.tree.map(jnp.zeros_like, weights), jax.tree.map(jnp.zeros_like, weights), jnp.float32(0), jnp.float32(0))
run = jax.jit(step, donate_argnums=0)
loop = jax.jit(lambda state, x, y, order: lax.fori_loop(1, len(order), lambda i, s: step(s, x[order[i]], y[order[i]]), state),
               donate_argnums=0)
clock = job.Clock()
there = (jnp.asarray(x), jnp.asarray(y)) if n.kind == "mlp" else None
for _ in range(args.epochs):
    order = random.permutation(len(x)).reshape(-1, n.batch)
    with clock:
        state = jax.block_until_ready(run(state, x[order[0]], y[order[0]]))
        clock.step_done()
        if n.kind == "mlp":
            state = loop(state, *there, order)
        else:
            for rows in order[1:]:
                state = run(state, x[rows], y[rows])
        jax.block_until_ready(state)
clock.report(len(x), loss=state[-1])
