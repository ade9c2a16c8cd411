"""Training on a GPU in PyTorch, as tests/bench/gpu times it; on the CPU to try that file."""

import gc
import time
from dataclasses import dataclass

import torch
import torch_models
from torch import nn

ENOUGH = 0.5  # seconds of a round


@dataclass(frozen=True)
class Mode:
    """How PyTorch runs a step. kind: eager, reduce-overhead (of torch.compile), graph (captured by hand); the others are settings of cuDNN."""
    kind: str
    deterministic: bool = False
    channels_last: bool = False
    benchmark: bool = False

    def __str__(self):
        return ", ".join([self.kind] + [name for name in ("deterministic", "channels_last", "benchmark") if getattr(self, name)])


KINDS = ("reduce-overhead", "graph", "eager")
SETTINGS = ({}, {"channels_last": True, "benchmark": True}, {"deterministic": True})


def modes(model, compiled, captured):
    """Only convnet has convolutions, for which cuDNN has settings. To compile takes long: with deterministic convolutions it is left out."""
    return [Mode(kind, **settings) for kind in KINDS for settings in (SETTINGS if model == "convnet" else SETTINGS[:1])
            if not (kind == "reduce-overhead" and (not compiled or "deterministic" in settings) or kind == "graph" and not captured)]


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def release():
    """Gives the memory of what was deleted to other processes. Also: torch.compile compiles a function 8 times at most, then runs it as eager mode does."""
    gc.collect()
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class DeviceRows:
    """Rows that are in the GPU's memory from the start; next(): a batch of them in random order."""
    name = "data on the GPU"

    def __init__(self, data, batch, device):
        self.data, self.batch, self.device = [part.to(device) for part in data], batch, device
        self.order, self.at = torch.randperm(len(data[1]), device=device), 0

    def rows(self):
        if self.at + self.batch > len(self.order):
            self.order, self.at = torch.randperm(len(self.order), device=self.order.device), 0
        self.at += self.batch
        return self.order[self.at - self.batch:self.at]

    def next(self):
        rows = self.rows()
        return [torch.index_select(part, 0, rows) for part in self.data]

    def next_into(self, static):
        rows = self.rows()
        for part, to in zip(self.data, static):
            torch.index_select(part, 0, rows, out=to)


class HostRows(DeviceRows):
    """Rows that are in the host's memory, as Isogrid's: they are gathered in pinned memory, and copied while the GPU computes."""
    name = "data on the host"

    def __init__(self, data, batch, device):
        super().__init__(data, batch, torch.device("cpu"))
        self.to, self.turn, self.gpu = device, 0, device.type == "cuda"
        self.pinned = [[torch.empty((batch, *part.shape[1:]), dtype=part.dtype, pin_memory=self.gpu) for part in data] for _ in range(3)]
        self.copied = [torch.cuda.Event() for _ in self.pinned] if self.gpu else []

    def sent(self, send):
        """What `send` makes of the next rows, in pinned memory that no copy reads any more."""
        self.turn = (self.turn + 1) % len(self.pinned)
        if self.gpu:
            self.copied[self.turn].synchronize()
        super().next_into(self.pinned[self.turn])
        there = send(self.pinned[self.turn])
        if self.gpu:
            self.copied[self.turn].record()
        return there

    def next(self):
        return self.sent(lambda parts: [part.to(self.to, non_blocking=True) for part in parts])

    def next_into(self, static):
        self.sent(lambda parts: [to.copy_(part, non_blocking=True) for part, to in zip(parts, static)])


class Training:
    """Of mlp or convnet: step() is one, on the next rows of a source."""

    def __init__(self, model, mode, tf32, source, device):
        self.mode, self.tf32, self.device = mode, tf32, device
        self.set_switches()
        torch.manual_seed(0)
        layers = torch_models.mlp() if model == "mlp" else torch_models.convnet()
        self.net, self.loss = nn.Sequential(torch_models.Scale(), *layers).to(device), nn.CrossEntropyLoss()
        if mode.channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        gpu = device.type == "cuda"
        self.optimizer = torch.optim.Adam([p for p in self.net.parameters() if p.requires_grad], lr=1e-3, eps=1e-7, fused=gpu,
                                          capturable=gpu and mode.kind == "graph")
        self.forward = self.evaluate
        if mode.kind == "reduce-overhead":
            self.forward = torch.compile(self.evaluate, mode="reduce-overhead", dynamic=False)
        self.graph = None
        if mode.kind == "graph":
            self.capture(source)

    def set_switches(self):
        """They are read when a step is run, compiled or captured."""
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = self.mode.deterministic, self.mode.benchmark

    def evaluate(self, x, y):
        return self.loss(self.net(x), y)

    def train(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(x, y).backward()
        self.optimizer.step()

    def capture(self, source):
        """Some steps on another stream first, as PyTorch's manual asks."""
        self.static = source.next()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.train(*self.static)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train(*self.static)

    def step(self, source):
        if self.graph:
            source.next_into(self.static)
            self.graph.replay()
        else:
            self.train(*source.next())

    def seconds(self, source, steps):
        """Of a step."""
        wait(self.device)
        begin = time.perf_counter()
        for _ in range(steps):
            self.step(source)
        wait(self.device)
        return (time.perf_counter() - begin) / steps

    def rates(self, source, rounds, most):
        """Samples/s of rounds of at most so many steps."""
        self.set_switches()
        self.seconds(source, 10)  # compile, choose algorithms
        steps = max(10, min(most, int(ENOUGH / self.seconds(source, 10))))
        return [source.batch / self.seconds(source, steps) for _ in range(rounds)]


class TextTraining(Training):
    """Of GPT-2, compiled, as nanoGPT trains it: in bfloat16 by autocast, weights decay in matrices alone, gradients are clipped to the norm 1."""

    def __init__(self, sizes, device):
        self.mode, self.tf32, self.device = Mode("default"), False, device
        self.set_switches()
        torch.manual_seed(0)
        self.net, self.graph = torch_models.GPT(**sizes).to(device), None
        matrices, others = ([p for p in self.net.parameters() if (p.dim() > 1) == large] for large in (True, False))
        self.optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=3e-4, betas=(0.9, 0.95),
                                           eps=1e-8, fused=True)
        self.forward = torch.compile(self.evaluate)

    def evaluate(self, x, y):
        with torch.autocast(self.device.type, torch.bfloat16):
            out = self.net(x)
        return nn.functional.cross_entropy(out.flatten(0, -2).float(), y.flatten())

    def train(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward(x, y).backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()


def product_seconds(rows, width, layers, rounds, device):
    """Of a step's products of so many layers alone: forward, gradients of rows and of weights, by cuBLASLt in bfloat16."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.backends.cuda.preferred_blas_library("cublaslt")
    x, w, dy = (torch.randn(shape, device=device, dtype=kind) / width ** 0.5 for shape in ((rows, width), (width, width), (rows, width)))
    times = []
    for _ in range(rounds + 1):
        wait(device)
        begin = time.perf_counter()
        for _ in range(4 * layers):
            torch.mm(x, w)
            torch.mm(dy, w.t())
            torch.mm(x.t(), dy)
        wait(device)
        times.append((time.perf_counter() - begin) / 4)
    return sorted(times[1:])[rounds // 2]
