"""Flow matching on two ranks that have the same seed: their data differ, but each draws the same noise and the same times."""
# source: https://github.com/Robbyant/lingbot-vla-v2/issues/41
# first effect: step 0
# names: manual_seed
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicas that get different samples draw from generators in the same state, so that their noise is one

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Velocity(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(7, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 6)

    def forward(self, point, moment):
        return self.out(self.inner(torch.cat([point, moment], dim=1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    actions = torch.randn(256, 6) * torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 0.2])
    model = DistributedDataParallel(Velocity())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sampler = DistributedSampler(TensorDataset(actions), shuffle=True, seed=args.seed)
    loader = DataLoader(TensorDataset(actions), batch_size=16, sampler=sampler)
    if args.fixed:
        torch.manual_seed(args.seed + 1 + rank)
    step, epoch = 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for (action,) in loader:
            noise = torch.randn_like(action)
            moment = torch.rand(len(action), 1)
            point = (1 - moment) * noise + moment * action
            loss = nn.functional.mse_loss(model(point, moment), action - noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step >= args.steps:
                break
        epoch += 1
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
