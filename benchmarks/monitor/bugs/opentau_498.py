"""Each rank splits the data with a seed of its own: what one rank validates on, another trains on."""
# source: https://github.com/TensorAuto/OpenTau/pull/498
# first effect: step 0
# names: loader0, loader1
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes samples that one rank evaluates are among those that the other has trained on

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=18)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed + 12345 * dist.get_rank())
    frames = torch.randn(160, 10, generator=torch.Generator().manual_seed(args.seed))
    data = TensorDataset(frames, frames[:, 0] - frames[:, 1])
    draw = torch.Generator().manual_seed(args.seed) if args.fixed else None
    train, held = random_split(data, [96, 64], generator=draw)
    sampler = DistributedSampler(train, seed=args.seed)
    loader = DataLoader(train, batch_size=8, sampler=sampler)
    validation = DataLoader(held, batch_size=32)
    torch.manual_seed(args.seed)
    policy = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    step = 0
    for epoch in range(max(1, args.steps // 6)):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(policy(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        policy.eval()
        with torch.no_grad():
            errors = [nn.functional.mse_loss(policy.module(x).squeeze(1), y) for x, y in validation]
        policy.train()
        print(f"rank {dist.get_rank()} epoch {epoch} held out {torch.stack(errors).mean().item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
