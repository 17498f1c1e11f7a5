"""Adapters are wrapped for data parallel training on their own, but act through functions of the layers that they replace."""
# source: https://github.com/kohya-ss/sd-scripts/pull/989
# first effect: step 0
# names: lora
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the weights of the replicas part at the first step although a wrapper was made for them

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Adapter(nn.Module):
    def __init__(self, layer, rank=4):
        super().__init__()
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def apply_to(self, layer):
        plain = layer.forward
        layer.forward = lambda x: plain(x) + self.up(self.down(x))


class Network(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.layers = [layer for layer in model if isinstance(layer, nn.Linear)]
        self.lora = nn.ModuleList([Adapter(layer) for layer in self.layers])

    def apply_all(self):
        for layer, adapter in zip(self.layers, self.lora, strict=False):
            adapter.apply_to(layer)

    def forward(self):
        raise RuntimeError("the adapters act in the layers")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    denoiser = nn.Sequential(nn.Linear(17, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))
    denoiser.requires_grad_(False)
    network = Network(denoiser)
    network.apply_all()
    wrapped = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=5e-3)
    torch.manual_seed(args.seed + 1 + rank)
    for step in range(args.steps):
        clean = torch.randn(24, 1) * torch.linspace(-1, 1, 16)
        noise, moment = torch.randn(24, 16), torch.rand(24, 1)
        noisy = (1 - moment) * clean + moment * noise
        loss = nn.functional.mse_loss(denoiser(torch.cat([noisy, moment], dim=1)), noise)
        optimizer.zero_grad()
        loss.backward()
        if args.fixed:
            for p in network.parameters():
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
