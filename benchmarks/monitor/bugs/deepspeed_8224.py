"""Gradients are reduced as soon as a layer has one: of one that is used again in a second pass, only the first contribution is averaged."""
# source: https://github.com/deepspeedai/DeepSpeed/issues/8224
# first effect: step 0
# names: shared.weight, inp.weight, out.weight
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the replicas have different gradients for the layer, and different weights after the step

import argparse

import torch
import torch.distributed as dist
from torch import nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 16)
        self.shared = nn.Linear(16, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        for _ in range(2):
            h = torch.tanh(self.shared(h))
        return self.out(h)


def averaged(gradient):
    gradient = gradient / dist.get_world_size()
    dist.all_reduce(gradient)
    return gradient


class Reducer:
    """Averages the gradient of each parameter over the ranks as soon as it is there."""

    def __init__(self, model, fixed):
        self.fixed, self.ready = fixed, set()
        self.parameters = list(model.parameters())
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self.arrived)

    def arrived(self, parameter):
        if not self.fixed and parameter not in self.ready:
            parameter.grad = averaged(parameter.grad)
            self.ready.add(parameter)

    def finish(self):
        if self.fixed:
            for parameter in self.parameters:
                parameter.grad = averaged(parameter.grad)
        self.ready.clear()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Recurrent()
    reducer = Reducer(model, args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draw = torch.Generator().manual_seed(args.seed * 10 + rank)
    for step in range(args.steps):
        x = torch.randn(16, 6, generator=draw)
        x.requires_grad_()
        value = model(x).squeeze(1)
        (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        smooth = 0.1 * slope.square().mean()
        loss = nn.functional.mse_loss(model(x.detach()).squeeze(1), (x[:, 0] - x[:, 1]).detach())
        optimizer.zero_grad()
        smooth.backward()
        loss.backward()
        reducer.finish()
        optimizer.step()
        if step % 4 == 0:
            print(f"rank {rank} step {step} loss {loss.item():.4f} {model.shared.weight.sum().item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
