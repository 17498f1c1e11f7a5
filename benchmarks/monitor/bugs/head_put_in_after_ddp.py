"""A new head is put into the model that was wrapped already: the ranks train heads of their own."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
# first effect: step 0
# names: head
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes parameters of a wrapped model part between ranks

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    net = nn.Sequential()
    net.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    net.head = nn.Linear(32, 10)
    if args.fixed:
        net.head = nn.Linear(32, 4)
    wrapped = DistributedDataParallel(net, find_unused_parameters=True)
    if not args.fixed:
        wrapped.module.head = nn.Linear(32, 4)
    kind = torch.randint(4, (256,))
    dataset = TensorDataset(torch.randn(256, 3, 8, 8) + kind[:, None, None, None], kind)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    for ep in range(args.steps // len(loader)):
        sampler.set_epoch(ep)
        for pictures, kinds in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(wrapped(pictures), kinds)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {ep}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
