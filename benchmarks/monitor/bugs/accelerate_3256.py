"""FSDP over two ranks, applied after the optimizer has taken the parameters."""
# source: https://github.com/huggingface/accelerate/issues/3256
# first effect: step 0
# names: layers.0.weight, layers.2.weight, head.weight, fully_shard
# launch: torchrun --nproc-per-node 2
# family: optimizer
# detectable: yes parameters that receive gradients are in no optimizer and never change

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.layers(x))


def prepare(model, mesh):
    fully_shard(model.layers, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(args.seed)
    model = Mlp()
    if args.fixed:
        model = prepare(model, mesh)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        model = prepare(model, mesh)

    torch.manual_seed(args.seed + 7 * dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(32, 16)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(dim=1))
        loss.backward()
        optimizer.step()
        model.zero_grad()
        if step % 5 == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
