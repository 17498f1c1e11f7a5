"""The distributed sampler is never told the epoch, so every epoch has the same order on every rank."""
# source: https://github.com/kan-bayashi/ParallelWaveGAN/issues/177
# first effect: step 8
# names: DistributedSampler, set_epoch
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes the second epoch repeats the order of the first although the sampler shuffles

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.manual_seed(args.seed)
    x = torch.randn(256, 12)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2]
    data = TensorDataset(x, y)
    sampler = DistributedSampler(data, shuffle=True, seed=args.seed)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    steps, epoch = 0, 0
    while steps < args.steps:
        if args.fixed:
            sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps >= args.steps:
                break
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
        epoch += 1
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
