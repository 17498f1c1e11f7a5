"""An optimizer in shards, by hand, with a loss scaler: each rank looks for overflows in its own shard, and skips by itself."""
# source: https://github.com/facebookresearch/fairscale/issues/180
# first effect: step 0
# names: step, scale, GradScaler
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes of the parts of one model some are stepped and others are not, and the ranks go on with different scales

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn

BATCH = 24


class Net(nn.Module):
    """A narrow way in, and a wide way out that overflows first."""

    def __init__(self, width):
        super().__init__()
        self.reads = nn.Sequential(nn.Linear(16, width), nn.Tanh())
        self.tells = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 6))

    def forward(self, x):
        return self.tells(self.reads(x))


def average(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(dist.get_world_size())


def agree(scaler, optimizer):
    """An overflow anywhere is one everywhere."""
    for found in scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
        dist.all_reduce(found, op=dist.ReduceOp.MAX)


def train(args):
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Net(24)
    shards = [list(model.reads.parameters()), list(model.tells.parameters())]
    optimizer = torch.optim.SGD(shards[rank], lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21, growth_interval=8)
    centres = 2 * torch.randn(6, 16)
    generator = torch.Generator().manual_seed(args.seed + 10 * rank + 1)
    for step in range(args.steps):
        labels = torch.randint(0, 6, (BATCH,), generator=generator)
        inputs = centres[labels] + torch.randn(BATCH, 16, generator=generator)
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            scores = model(inputs)
        loss = nn.functional.cross_entropy(scores.float(), labels)
        scaler.scale(loss).backward()
        average(model.parameters())
        scaler.unscale_(optimizer)
        if args.fixed:
            agree(scaler, optimizer)
        scaler.step(optimizer)
        scaler.update()
        for owner, shard in enumerate(shards):
            for parameter in shard:
                dist.broadcast(parameter.data, owner)
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} scale {scaler.get_scale():g}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=25)
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)
