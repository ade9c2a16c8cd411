"""torch.distributed.checkpoint on the state of tests/bench/checkpoint: matrices that are sharded by rows over the processes. Prints a line of
JSON with the medians of the slowest process's seconds."""

import argparse
import json
import os
import shutil
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

TENSORS, COLUMNS = 24, 4096


def slowest(work, group):
    """What the work gives, and the seconds from when all processes begin until the last has done it. The group is not the one that the work
    uses: an asynchronous save goes on with its collectives in a thread."""
    dist.barrier(group)
    begin = time.monotonic()
    result = work()
    seconds = torch.tensor([time.monotonic() - begin])
    dist.all_reduce(seconds, dist.ReduceOp.MAX, group)
    return result, seconds.item()


def forget(folder, group):
    """What is loaded comes from the disk."""
    dist.barrier(group)
    for name in os.listdir(folder):
        file = os.open(f"{folder}/{name}", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    job = parser.parse_args()
    dist.init_process_group("gloo")
    group = dist.new_group()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    rows = (job.mib << 20) // (TENSORS * COLUMNS * 4)
    rows_here = len(torch.arange(rows).chunk(dist.get_world_size())[dist.get_rank()])
    state = {f"dense_{t}": DTensor.from_local(torch.rand(rows_here, COLUMNS), mesh, [Shard(0)], shape=(rows, COLUMNS), stride=(COLUMNS, 1))
             for t in range(TENSORS)}
    times = {"save": [], "stall": [], "load": []}
    for count in range(-1, job.rounds):
        folder = f"{job.folder}/torch"
        if dist.get_rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        seconds = {"save": slowest(lambda: dcp.save(state, checkpoint_id=folder), group)[1]}
        forget(folder, group)
        seconds["load"] = slowest(lambda: dcp.load(state, checkpoint_id=folder), group)[1]
        future, seconds["stall"] = slowest(lambda: dcp.async_save(state, checkpoint_id=folder), group)
        getattr(future, "upload_completion", future).result()
        for name in times:
            if count >= 0:  # the first is not counted
                times[name].append(seconds[name])
    if dist.get_rank() == 0:
        print(json.dumps({name: statistics.median(values) for name, values in times.items()}), flush=True)
    dist.destroy_process_group()


main()
