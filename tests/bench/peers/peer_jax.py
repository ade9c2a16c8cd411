"""JAX without a library of layers. One device: an epoch is one compiled loop over data that stay on the device. Two devices: one
compiled step a batch, the batch sharded over them, the weights replicated."""

import os

import job

args = job.options(devices=(1, 2))
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.devices} " + os.environ.get("XLA_FLAGS", "")
if args.devices > 1:
    os.environ["NPROC"] = "4"  # with a pool of two threads for two devices, JAX's collectives may wait for ever

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

DENSE = {"mlp": [(784, 256), (256, 256), (256, 10)], "convnet": [(32, 256), (256, 10)]}[args.model]
# (kernel, stride, padding, whether it has a bias of its own) of each convolution
CONVS = {"mlp": [], "convnet": [((3, 3, 1, 12), 1, "SAME"), ((6, 6, 12, 24), 2, "VALID"), ((6, 6, 24, 32), 2, "SAME")]}[args.model]


def glorot(key, shape):
    field = int(np.prod(shape[:-2]))
    limit = np.sqrt(6 / (field * (shape[-2] + shape[-1])))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def start():
    shapes = [kernel for kernel, _, _ in CONVS] + DENSE
    keys = jax.random.split(jax.random.key(0), len(shapes))
    weights = [{"kernel": glorot(k, s), "bias": jnp.zeros(s[-1])} for k, s in zip(keys, shapes)]
    return {
        "weights": weights,
        "first": jax.tree.map(jnp.zeros_like, weights),
        "second": jax.tree.map(jnp.zeros_like, weights),
        "moving": [{"mean": jnp.zeros(k[-1]), "variance": jnp.ones(k[-1])} for k, _, _ in CONVS],
        "iteration": jnp.int32(0),
    }


def normalise(x, bias, moving, training):
    """Batch normalisation without scale; the layer's bias is its centre."""
    if training:
        now = {"mean": x.mean((0, 1, 2)), "variance": x.var((0, 1, 2))}
        moving = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, moving, now)
    else:
        now = moving
    return (x - now["mean"]) * lax.rsqrt(now["variance"] + 1e-3) + bias, moving


def apply(weights, moving, x, key, training):
    moved = []
    if CONVS:
        x = x / 255
    for w, m, (_, stride, padding) in zip(weights, moving, CONVS):
        x = lax.conv_general_dilated(x, w["kernel"], (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x, m = normalise(x, w["bias"], m, training)
        x = jax.nn.relu(x)
        moved.append(m)
    if CONVS:
        x = x.mean((1, 2))
    *hidden, last = weights[len(CONVS):]
    for w in hidden:
        x = jax.nn.relu(x @ w["kernel"] + w["bias"])
    if CONVS and training:
        x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), 2 * x, 0)
    return x @ last["kernel"] + last["bias"], moved


def loss(weights, moving, x, y, key):
    logits, moving = apply(weights, moving, x, key, True)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)
    return -chosen.mean(), moving


def step(state, x, y):
    key = jax.random.fold_in(jax.random.key(1, impl="rbg"), state["iteration"])
    gradients, moving = jax.grad(loss, has_aux=True)(state["weights"], state["moving"], x, y, key)
    t = state["iteration"] + 1
    first = jax.tree.map(lambda m, g: m + 0.1 * (g - m), state["first"], gradients)
    second = jax.tree.map(lambda v, g: v + 0.001 * (g * g - v), state["second"], gradients)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), state["weights"], first, second)
    return {"weights": weights, "first": first, "second": second, "moving": moving, "iteration": t}


@jax.jit
def hits(state, x, y):
    logits, _ = apply(state["weights"], state["moving"], x, None, False)
    return (logits.argmax(-1) == y).sum()


def one_device(state, x, y, order, clock):
    x, y = jnp.asarray(x), jnp.asarray(y)
    epoch = jax.jit(lambda state, order, begin, end: lax.fori_loop(
        begin, end, lambda i, s: step(s, x[order[i]], y[order[i]]), state), donate_argnums=0)
    for _ in range(args.epochs):
        batches = order()
        with clock:
            if clock.first_step is None:
                state = jax.block_until_ready(epoch(state, batches, 0, 1))
                clock.step_done()
            state = jax.block_until_ready(epoch(state, batches, 1, len(batches)))
    return state


def several_devices(state, x, y, order, clock):
    mesh = jax.make_mesh((args.devices,), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    run = jax.jit(step, donate_argnums=0)
    for _ in range(args.epochs):
        with clock:
            for rows in order():
                state = run(state, *jax.device_put((x[rows], y[rows]), split))
                if clock.first_step is None:
                    jax.block_until_ready(state)
                    clock.step_done()
            jax.block_until_ready(state)
    return state


x, y, tx, ty = job.arrays(args)
clock, random = job.Clock(), np.random.default_rng(0)
train = one_device if args.devices == 1 else several_devices
state = train(start(), x, y, lambda: random.permutation(len(x)).reshape(-1, args.batch), clock)
right = sum(int(hits(state, tx[i:i + 500], ty[i:i + 500])) for i in range(0, len(tx), 500))
clock.report(len(x), accuracy=right / len(tx))
