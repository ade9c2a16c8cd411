"""Networks in PyTorch that several of the peers train."""

import torch
import torch.nn.functional as F
from torch import nn


class Scale(nn.Module):
    def forward(self, x):
        return x / 255


class Average(nn.Module):
    def forward(self, x):
        return x.flatten(2).mean(2)


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
    layer.weight.requires_grad_(False)  # no scale
    return layer


def mlp():
    """The layers of Isogrid's built-in model, without its Rescaling; those of convnet too."""
    return [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]


def convnet():
    return [nn.Conv2d(1, 12, 3, padding=1, bias=False), norm(12), nn.ReLU(),
            nn.Conv2d(12, 24, 6, stride=2, bias=False), norm(24), nn.ReLU(),
            nn.Conv2d(24, 32, 6, stride=2, padding=2), norm(32), nn.ReLU(),
            Average(), nn.Linear(32, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10)]


class Block(nn.Module):
    def __init__(self, width, heads, epsilon, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=epsilon), nn.LayerNorm(width, eps=epsilon)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        q, k, v = (p.view(rows, tokens, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).split(width, 2))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(h.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """GPT-2, whose embeddings of tokens are also its last layer."""

    def __init__(self, vocabulary, tokens, width, heads, layers):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks, self.norm = nn.Sequential(*[Block(width, heads, 1e-5, True) for _ in range(layers)]), nn.LayerNorm(width)
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)

    def forward(self, x):
        return F.linear(self.norm(self.blocks(self.token(x) + self.position.weight)), self.token.weight)


class GatedMLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Experts(nn.Module):
    """A mixture of experts, of which a token takes the best two: each expert computes the rows that chose it."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([GatedMLP(width, hidden) for _ in range(experts)])

    def forward(self, x):
        rows = x.flatten(0, -2)
        shares, chosen = torch.topk(F.softmax(self.router(rows), -1), 2)
        shares, out = shares / shares.sum(-1, keepdim=True), torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            out.index_add_(0, row, expert(rows[row]) * shares[row, place, None])
        return out.view_as(x)


class GatedBlock(nn.Module):
    """A block of LLaMA: RMS norms, rotary positions, fewer heads of keys and values, a gated MLP, no biases."""

    def __init__(self, width, heads, kv_heads, hidden, experts):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.qkv, self.out = nn.Linear(width, (heads + 2 * kv_heads) * size, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = Experts(width, hidden, experts) if experts else GatedMLP(width, hidden)

    def forward(self, x, cos, sin):
        rows, tokens, width = x.shape
        size = width // self.heads
        parts = self.qkv(self.norm1(x)).split([width, self.kv_heads * size, self.kv_heads * size], 2)
        q, k, v = (p.view(rows, tokens, -1, size).transpose(1, 2) for p in parts)
        h = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.out(h.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.mlp(self.norm2(x))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class LLaMA(nn.Module):
    def __init__(self, vocabulary, tokens, width, heads, kv_heads, hidden, layers, experts=0):
        super().__init__()
        self.token, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.blocks, self.norm = nn.ModuleList([GatedBlock(width, heads, kv_heads, hidden, experts) for _ in range(layers)]), nn.RMSNorm(width, eps=1e-5)
        size = width // heads
        angles = torch.outer(torch.arange(tokens), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)

    def forward(self, x):
        h = self.token(x)
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        return self.out(self.norm(h))
