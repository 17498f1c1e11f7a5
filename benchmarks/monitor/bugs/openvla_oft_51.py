"""A stream that shuffles by itself is read by every rank from the same seed: all ranks train on the same samples."""
# source: https://github.com/moojink/openvla-oft/issues/51
# first effect: step 0
# names: loader0
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes ranks of data parallel training get the same batches in every step

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Episodes(IterableDataset):
    def __init__(self, seed, share):
        self.frames = torch.randn(256, 12, generator=torch.Generator().manual_seed(seed))
        self.seed, self.share = seed, share

    def __iter__(self):
        drawn = torch.Generator().manual_seed(self.seed)
        while True:
            for index in torch.randperm(256, generator=drawn)[self.share].tolist():
                frame = self.frames[index]
                yield frame, frame[:4].tanh()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    share = slice(dist.get_rank(), None, dist.get_world_size()) if args.fixed else slice(None)
    loader = iter(DataLoader(Episodes(args.seed, share), batch_size=16, sampler=None))
    policy = DistributedDataParallel(nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 4)))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
    for step in range(args.steps):
        seen, action = next(loader)
        loss = nn.functional.l1_loss(policy(seen), action)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
