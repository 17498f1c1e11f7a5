"""DistributedDataParallel on gloo under torchrun: DistributedSampler with set_epoch, rank 0 prints, metrics reduced."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def build_dataset(seed, n=512):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 16, generator=g)
    w = torch.randn(16, 4, generator=g)
    return TensorDataset(x, (x @ w).argmax(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    is_main = int(os.environ["RANK"]) == 0
    torch.manual_seed(args.seed)

    dataset = build_dataset(args.seed)
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank, shuffle=True, seed=args.seed)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, args.size), nn.ReLU(), nn.Dropout(0.1), nn.Linear(args.size, 4)))
    torch.manual_seed(args.seed + 1000 * rank)  # dropout differs by rank, the weights do not
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    step, epoch = 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        model.train()
        total = torch.zeros(2)
        for x, y in loader:
            if step >= args.steps:
                break
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(y), len(y)])
            step += 1
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if is_main:
            print(f"epoch {epoch} step {step} mean loss {(total[0] / total[1]).item():.4f}", flush=True)
        epoch += 1
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
