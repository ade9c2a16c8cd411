"""PyTorch, eager or compiled; started by torch.distributed.run it is data parallel (DDP over gloo)."""

import os

import job

args = job.options(mode=("eager", "compile"), threads=(2, 1))

import torch
import torch_models as models
from torch import nn

world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(args.threads)
torch.manual_seed(0)
if world > 1:
    torch.distributed.init_process_group("gloo")


def build():
    layers = models.mlp() if args.model == "mlp" else [models.Scale(), *models.convnet()]
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
