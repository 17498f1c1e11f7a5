"""The loader has no distributed sampler and every rank the same seed: all ranks work on the same batches."""
# source: https://github.com/Shark-NLP/DiffuSeq/issues/37
# first effect: step 0
# names: DataLoader, DistributedSampler
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes the ranks receive identical samples at every step

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def infinite(loader):
    epoch = 0
    while True:
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


class TrainLoop:
    def __init__(self, model, data, lr):
        self.ddp = DistributedDataParallel(model)
        self.data = data
        self.opt = torch.optim.AdamW(self.ddp.parameters(), lr=lr)

    def run_step(self):
        (x,) = next(self.data)
        t = torch.rand(len(x), 1)
        noise = torch.randn_like(x)
        noisy = (1 - t) * x + t * noise
        loss = (self.ddp(torch.cat([noisy, t], dim=1)) - (noise - x)).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(args.seed)
    latent = torch.randn(512, 2) @ torch.randn(2, 8)
    dataset = TensorDataset(latent)
    sampler = DistributedSampler(dataset, seed=args.seed) if args.fixed else None
    order = torch.Generator().manual_seed(args.seed)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, shuffle=sampler is None, generator=order)
    loop = TrainLoop(nn.Sequential(nn.Linear(9, 64), nn.SiLU(), nn.Linear(64, 8)), infinite(loader), 3e-3)
    torch.manual_seed(args.seed + rank + 1)
    for step in range(args.steps):
        loss = loop.run_step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss:.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
