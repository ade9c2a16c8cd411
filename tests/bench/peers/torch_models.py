"""Networks in PyTorch that several of the peers train."""

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
