"""gpt.txt: the losses of 200 steps of a small GPT in float64, computed by PyTorch 2.11.0 on the CPU.

    python make_gpt.py

The test tests/models/test_gpt.c trains the same network (iso_gpt) from the same weights on the same tokens. The first
line says what the run is; the others hold a loss each.
"""

import math
import pathlib

import torch
from torch.nn import functional as F

VOCABULARY, LAYERS, HEADS, WIDTH, CONTEXT = 64, 2, 2, 32, 16
BATCH, STEPS, RATE, DECAY = 8, 200, 3e-3, 0.1


def hashed(v, count, limit):
    """Numbers in (-limit, limit) from the number of a variable and the index of an element: tests/keras/README.md."""
    numbers = []
    for i in range(count):
        h = (i * 2654435761 + (v + 1) * 2246822519) & 0xFFFFFFFF
        h ^= h >> 16
        h = h * 2146121005 & 0xFFFFFFFF
        h ^= h >> 15
        h = h * 2221713035 & 0xFFFFFFFF
        h ^= h >> 16
        numbers.append((2.0 * h + 1.0 - 4294967296.0) / 4294967296.0 * limit)
    return torch.tensor(numbers, dtype=torch.float64).to(torch.float32).to(torch.float64)


def shapes():
    """The variables of iso_gpt in order: path and shape."""
    yield "token_embedding/embeddings", (VOCABULARY, WIDTH)
    yield "position_embedding/embeddings", (CONTEXT, WIDTH)
    for b in range(LAYERS):
        yield f"block_{b}/attention_norm/gamma", (WIDTH,)
        yield f"block_{b}/attention_norm/beta", (WIDTH,)
        for product in ("query", "key", "value"):
            yield f"block_{b}/attention/{product}/kernel", (WIDTH, HEADS, WIDTH // HEADS)
            yield f"block_{b}/attention/{product}/bias", (HEADS, WIDTH // HEADS)
        yield f"block_{b}/attention/attention_output/kernel", (HEADS, WIDTH // HEADS, WIDTH)
        yield f"block_{b}/attention/attention_output/bias", (WIDTH,)
        yield f"block_{b}/norm/gamma", (WIDTH,)
        yield f"block_{b}/norm/beta", (WIDTH,)
        yield f"block_{b}/up/kernel", (WIDTH, 4 * WIDTH)
        yield f"block_{b}/up/bias", (4 * WIDTH,)
        yield f"block_{b}/down/kernel", (4 * WIDTH, WIDTH)
        yield f"block_{b}/down/bias", (WIDTH,)
    yield "norm/gamma", (WIDTH,)
    yield "norm/beta", (WIDTH,)


def variables():
    made = {}
    for v, (path, shape) in enumerate(shapes()):
        values = hashed(v, math.prod(shape), 0.1).reshape(shape)
        made[path] = (values + 1 if path.endswith("gamma") else values).requires_grad_()
    return made


def tokens():
    """Words of 1 to 7 letters, each drawn from 40 by a linear congruential generator."""
    out, state = [], 1
    while len(out) <= BATCH * STEPS * CONTEXT:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        word = (state >> 8) % 40
        out += [(word * 11 + i * i * 5 + 1) % (VOCABULARY - 1) + 1 for i in range(word % 7 + 1)] + [0]
    return out[:BATCH * STEPS * CONTEXT + 1]


def logits(w, x):
    h = w["token_embedding/embeddings"][x] + w["position_embedding/embeddings"]
    for b in range(LAYERS):
        def norm(path, h):
            return F.layer_norm(h, (WIDTH,), w[f"{path}/gamma"], w[f"{path}/beta"], eps=1e-5)

        at = f"block_{b}/attention"
        y = norm(f"block_{b}/attention_norm", h)
        q, k, v = (torch.einsum("btd,dhk->bhtk", y, w[f"{at}/{p}/kernel"]) + w[f"{at}/{p}/bias"][:, None, :]
                   for p in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + torch.einsum("bhtk,hkd->btd", y, w[f"{at}/attention_output/kernel"]) + w[f"{at}/attention_output/bias"]
        y = norm(f"block_{b}/norm", h)
        y = F.gelu(y @ w[f"block_{b}/up/kernel"] + w[f"block_{b}/up/bias"])
        h = h + y @ w[f"block_{b}/down/kernel"] + w[f"block_{b}/down/bias"]
    h = F.layer_norm(h, (WIDTH,), w["norm/gamma"], w["norm/beta"], eps=1e-5)
    return h @ w["token_embedding/embeddings"].T


def train():
    w = variables()
    decayed = [p for path, p in w.items() if path.endswith(("kernel", "embeddings"))]
    others = [p for path, p in w.items() if not path.endswith(("kernel", "embeddings"))]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=DECAY), dict(params=others, weight_decay=0)],
                                  lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    text = torch.tensor(tokens())
    for step in range(STEPS):
        begin = step * BATCH * CONTEXT
        x, y = (text[begin + i:begin + i + BATCH * CONTEXT].reshape(BATCH, CONTEXT) for i in (0, 1))
        for group in optimizer.param_groups:
            group["lr"] = RATE * (0.9 * (1 + math.cos(math.pi * step / STEPS)) / 2 + 0.1)
        loss = F.cross_entropy(logits(w, x).reshape(-1, VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        yield loss.item()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    with open(pathlib.Path(__file__).parent / "gpt.txt", "w") as file:
        file.write(f"PyTorch {torch.__version__}: losses of {STEPS} steps of make_gpt.py\n")
        for loss in train():
            file.write(f"{loss:.9f}\n")
