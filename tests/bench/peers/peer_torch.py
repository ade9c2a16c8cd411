"""PyTorch, eager or compiled; started by torch.distributed.run it is data parallel (DDP over gloo)."""

import os

import job

args = job.options(mode=("eager", "compile"), threads=(2, 1))

import torch
from torch import nn

world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(args.threads)
torch.manual_seed(0)
if world > 1:
    torch.distributed.init_process_group("gloo")


def norm(channels):
    layer = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
    layer.weight.requires_grad_(False)  # no scale
    return layer


class Scale(nn.Module):
    def forward(self, x):
        return x / 255


class Average(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def build():
    if args.model == "mlp":
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    else:
        layers = [Scale(),
                  nn.Conv2d(1, 12, 3, padding=1, bias=False), norm(12), nn.ReLU(),
                  nn.Conv2d(12, 24, 6, stride=2, bias=False), norm(24), nn.ReLU(),
                  nn.Conv2d(24, 32, 6, stride=2, padding=2), norm(32), nn.ReLU(),
                  Average(), nn.Linear(32, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10)]
    for layer in layers:
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def tensors(x, y):
    x = torch.from_numpy(x)
    return x if x.dim() == 2 else x.permute(0, 3, 1, 2).contiguous(), torch.from_numpy(y).long()


x, y, tx, ty = job.arrays(args)
(x, y), (tx, ty) = tensors(x, y), tensors(tx, ty)
model = build()
wrapped = nn.parallel.DistributedDataParallel(model) if world > 1 else model
loss = nn.CrossEntropyLoss()


def forward(xs, ys):
    return loss(wrapped(xs), ys)


if args.mode == "compile":
    forward = torch.compile(forward)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3, eps=1e-7, fused=True)
clock = job.Clock()
for epoch in range(args.epochs):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).view(-1, args.batch)
    with clock:
        for rows in order[:, rank::world]:
            optimizer.zero_grad(set_to_none=True)
            forward(x[rows], y[rows]).backward()
            optimizer.step()
            clock.step_done()
model.eval()
with torch.no_grad():
    right = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(tx.split(500), ty.split(500)))
if rank == 0:
    clock.report(len(x), accuracy=right / len(tx))
if world > 1:
    torch.distributed.destroy_process_group()
