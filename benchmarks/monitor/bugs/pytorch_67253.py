"""A fast rank gets batches three times as large as a slow one, and the means of both count the same when gradients are averaged."""
# source: https://github.com/pytorch/pytorch/issues/67253
# first effect: step 0
# names: loader0, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes ranks whose losses are means give different numbers of samples to one average, in every step

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    rank = dist.get_rank()
    x = torch.randn(256, 10)
    data = TensorDataset(x, (x @ torch.randn(10, 3)).argmax(1))
    mine, size = (range(192), 24) if rank == 0 else (range(192, 256), 8)
    loader = DataLoader(Subset(data, mine), batch_size=size, shuffle=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.steps // 8):
        for features, labels in loader:
            out = model(features)
            if args.fixed:
                loss = nn.functional.cross_entropy(out, labels, reduction="sum")
                count = torch.tensor(float(len(labels)))
                dist.all_reduce(count)
                loss = loss * dist.get_world_size() / count
            else:
                loss = nn.functional.cross_entropy(out, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
