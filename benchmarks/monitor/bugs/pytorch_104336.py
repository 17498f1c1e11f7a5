"""A DDP model is converted and converted back before training, which loses the hooks that average its gradients.

The issue moves the model to another device and back; a change of type and back does the same to the same hooks.
"""
# source: https://github.com/pytorch/pytorch/issues/104336
# first effect: step 0
# names: net.0.weight, net.2.weight, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(2, 16, 5), nn.ReLU(), nn.Conv1d(16, 8, 5), nn.ReLU(), nn.Flatten())
        self.out = nn.Linear(8 * 24, 3)

    def forward(self, x):
        return self.out(self.net(x))


def save_reference(model, path):
    """Measure the model in double precision, for a table."""
    model.double()
    with torch.no_grad():
        total = sum(p.sum().item() for p in model.parameters())
    model.float()
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true", help="measure before wrapping")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    opt = parser.parse_args()

    dist.init_process_group(backend="gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(opt.seed)
    net = Toy()
    if opt.fixed:
        save_reference(net, None)
        model = DistributedDataParallel(net)
    else:
        model = DistributedDataParallel(net)
        save_reference(model, None)

    criterion = nn.CrossEntropyLoss()
    sgd = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(opt.seed + 100 + rank)
    for _ in range(opt.steps):
        signal = torch.randn(16, 2, 32)
        label = signal[:, 0].argmax(dim=1) // 11
        sgd.zero_grad()
        loss = criterion(model(signal), label)
        loss.backward()
        sgd.step()
    print(
        "rank", rank, "loss", round(loss.item(), 4), "checksum", sum(p.double().sum().item() for p in net.parameters())
    )
    dist.destroy_process_group()
