"""llama.txt: a small LLaMA in float64: LlamaForCausalLM of transformers 4.57.6 on PyTorch 2.11.0, on the CPU.

    python make_llama.py

The test tests/models/test_gpt.c has the same network (iso_llama), weights and tokens. The first line says what the run
is; then a line each for the loss, the logits and the gradient of each variable in the first batch (the sum of the
squares, and that of the products with other numbers); then the losses of the steps.
"""

import math
import pathlib

import torch
import transformers

from make_gpt import hashed, tokens

VOCABULARY, LAYERS, HEADS, KV_HEADS, WIDTH, HIDDEN, CONTEXT = 64, 2, 4, 2, 32, 48, 16
BATCH, STEPS, RATE, DECAY = 8, 60, 3e-3, 0.1


def variables(net):
    """The variables of iso_llama in order: path, shape, parameter, and whether PyTorch has it transposed."""
    def kernel(path, linear, *shape):
        return f"{path}/kernel", shape, linear.weight, True

    head = WIDTH // HEADS
    yield "token_embedding/embeddings", (VOCABULARY, WIDTH), net.model.embed_tokens.weight, False
    for b, layer in enumerate(net.model.layers):
        at, own = f"block_{b}/attention", layer.self_attn
        yield f"{at}_norm/scale", (WIDTH,), layer.input_layernorm.weight, False
        yield kernel(f"{at}/query", own.q_proj, WIDTH, HEADS, head)
        yield kernel(f"{at}/key", own.k_proj, WIDTH, KV_HEADS, head)
        yield kernel(f"{at}/value", own.v_proj, WIDTH, KV_HEADS, head)
        yield kernel(f"{at}/attention_output", own.o_proj, HEADS, head, WIDTH)
        yield f"block_{b}/norm/scale", (WIDTH,), layer.post_attention_layernorm.weight, False
        yield kernel(f"block_{b}/gate", layer.mlp.gate_proj, WIDTH, HIDDEN)
        yield kernel(f"block_{b}/up", layer.mlp.up_proj, WIDTH, HIDDEN)
        yield kernel(f"block_{b}/down", layer.mlp.down_proj, HIDDEN, WIDTH)
    yield "norm/scale", (WIDTH,), net.model.norm.weight, False
    yield kernel("logits", net.lm_head, WIDTH, VOCABULARY)


def network():
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5,
        rope_theta=100.0, tie_word_embeddings=False, attn_implementation="eager")).double()
    with torch.no_grad():
        for v, (path, shape, weight, transposed) in enumerate(variables(net)):
            values = hashed(v, math.prod(shape), 0.1) + path.endswith("scale")
            weight.copy_(values.reshape(weight.shape[::-1]).T if transposed else values.reshape(weight.shape))
    return net


def digest(values, v):
    values = values.detach().reshape(-1)
    return f"{values.square().sum().item():.12g} {(values @ hashed(v, len(values), 1)).item():.12g}"


def train(file):
    net, text = network(), torch.tensor(tokens())
    decayed = [p for path, _, p, _ in variables(net) if not path.endswith("scale")]
    others = [p for path, _, p, _ in variables(net) if path.endswith("scale")]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=DECAY), dict(params=others, weight_decay=0)],
                                  lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    for step in range(STEPS):
        begin = step * BATCH * CONTEXT
        x, y = (text[begin + i:begin + i + BATCH * CONTEXT].reshape(BATCH, CONTEXT) for i in (0, 1))
        for group in optimizer.param_groups:
            group["lr"] = RATE * (0.9 * (1 + math.cos(math.pi * step / STEPS)) / 2 + 0.1)
        logits = net(x).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            file.write(f"logits {digest(logits, 100)}\n")
            for v, (path, _, p, transposed) in enumerate(variables(net)):
                file.write(f"{path} {digest(p.grad.T if transposed else p.grad, v + 50)}\n")
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        file.write(f"{loss.item():.9f}\n")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    with open(pathlib.Path(__file__).parent / "llama.txt", "w") as file:
        file.write(f"transformers {transformers.__version__}, PyTorch {torch.__version__}: make_llama.py\n")
        train(file)
