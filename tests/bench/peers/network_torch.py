"""A network of networks.py in PyTorch, eager or compiled, in float32 or under autocast in bfloat16; started by torch.distributed.run it is
data parallel (DDP over gloo): network_torch.py --folder FOLDER --name NAME [--mode compile] [--dtype bfloat16] [--threads N]"""

import contextlib
import os

import job
import networks

args = job.network_options(mode=("eager", "compile"), dtype=("float32", "bfloat16"), threads=(2, 1),
                           layout=("channels_last", "contiguous"))  # of volumes; images are channels_last

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_models import GPT, Average, Block, LLaMA  # noqa: E402

n = networks.NETWORKS[args.name]
world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
torch.set_num_threads(args.threads)
torch.manual_seed(0)
if world > 1:
    torch.distributed.init_process_group("gloo")


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Embedding(n.vocabulary, n.width) if n.vocabulary else nn.Linear(n.features, n.width)
        self.blocks = nn.Sequential(*[Block(n.width, n.heads, 1e-3, n.vocabulary > 0) for _ in range(n.layers)])
        self.norm, self.out = nn.LayerNorm(n.width, eps=1e-3), nn.Linear(n.width, n.vocabulary or 10)

    def forward(self, x):
        h = self.norm(self.blocks(self.first(x)))
        return self.out(h if n.vocabulary else h.mean(1))


def convolved(before, filters, stride=1, size=3, groups=1):
    return [nn.Conv2d(before, filters, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(filters, eps=1e-3, momentum=0.01)]


class Residual(nn.Module):
    def __init__(self, before, filters, stride):
        super().__init__()
        self.long = nn.Sequential(*convolved(before, filters, stride), nn.ReLU(), *convolved(filters, filters))
        self.short = nn.Sequential(*convolved(before, filters, stride, 1)) if stride == 2 else nn.Identity()

    def forward(self, x):
        return F.relu(self.long(x) + self.short(x))


class Bottleneck(nn.Module):
    def __init__(self, before, filters, stride):
        super().__init__()
        self.long = nn.Sequential(*convolved(before, filters, 1, 1), nn.ReLU(), *convolved(filters, filters, stride), nn.ReLU(), *convolved(filters, 4 * filters, 1, 1))
        self.short = nn.Identity() if before == 4 * filters else nn.Sequential(*convolved(before, 4 * filters, stride, 1))

    def forward(self, x):
        return F.relu(self.long(x) + self.short(x))


def llama():
    return LLaMA(n.vocabulary, n.tokens, n.width, n.heads, n.kv_heads, n.hidden, n.layers, n.experts)


def gpt():
    return GPT(n.vocabulary, n.tokens, n.width, n.heads, n.layers)


def mlp():
    sizes = [784] + [n.width] * n.layers
    return nn.Sequential(*[layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())], nn.Linear(sizes[-1], 10))


def dense():
    return nn.Sequential(nn.Linear(784, n.width, bias=False), nn.ReLU(), nn.Dropout(0.4), nn.Linear(n.width, 10), nn.Softmax(1))


def convnet():
    layers, before = [], 1
    for filters, kernel, stride, padding in ((12, 3, 1, 1), (24, 6, 2, 0), (32, 6, 2, 2)):
        layers += [nn.Conv2d(before, filters, kernel, stride, padding, bias=False), nn.BatchNorm2d(filters, eps=1e-3, momentum=0.01), nn.ReLU()]
        before = filters
    return nn.Sequential(*layers, Average(), nn.Linear(32, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))


def vgg():
    layers = [*convolved(3, 64), nn.ReLU(), *convolved(64, 64), nn.ReLU()]
    for before in (64, 128):
        layers += [nn.MaxPool2d(2), *convolved(before, 2 * before), nn.ReLU(), *convolved(2 * before, 2 * before), nn.ReLU()]
    return nn.Sequential(*layers, Average(), nn.Linear(256, 10))


def resnet():
    blocks = [Residual(64, 64, 1), Residual(64, 64, 1)]
    for before in (64, 128, 256):
        blocks += [Residual(before, 2 * before, 2), Residual(2 * before, 2 * before, 1)]
    return nn.Sequential(*convolved(3, 64), nn.ReLU(), *blocks, Average(), nn.Linear(512, 10))


def bottleneck():
    layers, before = [*convolved(3, 64, 2, 7), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (filters, blocks) in enumerate(networks.BOTTLENECKS):
        for block in range(blocks):
            layers.append(Bottleneck(before, filters, 2 if stage and not block else 1))
            before = 4 * filters
    return nn.Sequential(*layers, Average(), nn.Linear(before, 10))


def mobilenet():
    layers, before = [*convolved(3, 32), nn.ReLU6()], 32
    for filters, stride in networks.SEPARABLE:
        layers += [*convolved(before, before, stride, groups=before), nn.ReLU6(), *convolved(before, filters, 1, 1), nn.ReLU6()]
        before = filters
    return nn.Sequential(*layers, Average(), nn.Linear(before, 10))


def cosmoflow():
    layers, before = [], 4
    for filters in (16, 32, 64, 128):
        layers += [nn.Conv3d(before, filters, 3, padding=1), nn.LeakyReLU(0.3), nn.MaxPool3d(2)]
        before = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 8, 128), nn.LeakyReLU(0.3), nn.Linear(128, 64), nn.LeakyReLU(0.3), nn.Linear(64, 10))


def twice(before, filters):
    return nn.Sequential(nn.Conv3d(before, filters, 3, padding=1), nn.ReLU(), nn.Conv3d(filters, filters, 3, padding=1), nn.ReLU())


class UNet3D(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([twice(4, 16), twice(16, 32), twice(32, 64)])
        self.enlarge = nn.ModuleList([nn.ConvTranspose3d(64, 32, 2, 2), nn.ConvTranspose3d(32, 16, 2, 2)])
        self.up = nn.ModuleList([twice(64, 32), twice(32, 16)])
        self.end = nn.Sequential(Average(), nn.Linear(16, 10))

    def forward(self, x):
        skips = []
        for i, layers in enumerate(self.down):
            x = layers(F.max_pool3d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for enlarge, layers in zip(self.enlarge, self.up):
            x = layers(torch.cat([enlarge(x), skips.pop()], 1))
        return self.end(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.LSTM(n.features, n.width, n.layers, batch_first=True), nn.Linear(n.width, 10)

    def forward(self, x):
        return self.out(self.layers(x)[0][:, -1])


KINDS = {"cosmoflow": cosmoflow, "unet3d": UNet3D, "recurrent": Recurrent, "transformer": Transformer, "gpt": gpt, "llama": llama, "mlp": mlp, "dense": dense,
         "convnet": convnet, "vgg": vgg, "resnet": resnet, "bottleneck": bottleneck, "mobilenet": mobilenet}
model = KINDS[n.kind]()
x, y = (torch.from_numpy(array) for array in networks.data(args.folder, args.name))
if x.dim() == 4:
    x, model = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last), model.to(memory_format=torch.channels_last)
elif x.dim() == 5:
    form = torch.channels_last_3d if args.layout == "channels_last" else torch.contiguous_format
    x, model = x.permute(0, 4, 1, 2, 3).contiguous(memory_format=form), model.to(memory_format=form)
if n.kind == "dense":
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, eps=1e-7, foreach=True)
elif n.kind in networks.TOKENS:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
else:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=True)
wrapped = nn.parallel.DistributedDataParallel(model) if world > 1 else model


def forward(xs, ys):
    half = args.dtype == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext():
        out = wrapped(xs)
    return F.mse_loss(out, ys) if n.kind == "dense" else F.cross_entropy(out.flatten(0, -2).float(), ys.flatten().long())


if args.mode == "compile":
    forward = torch.compile(forward)
clock = job.Clock()
for epoch in range(args.epochs):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch)).view(-1, n.batch)
    with clock:
        for rows in order.chunk(world, 1)[rank]:
            optimizer.zero_grad(set_to_none=True)
            loss = forward(x[rows], y[rows])
            loss.backward()
            optimizer.step()
            clock.step_done()
if rank == 0:
    clock.report(len(x), loss=loss.item())
if world > 1:
    torch.distributed.destroy_process_group()
