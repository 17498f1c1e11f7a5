"""Each rank gives its distributed sampler its own seed: their parts come from different permutations, overlap, and leave samples out."""
# source: https://github.com/NVlabs/LongLive/issues/71
# first effect: step 0
# names: DistributedSampler
# launch: torchrun --nproc-per-node 2
# family: data
# detectable: yes two ranks receive the same sample within an epoch while others are never used

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Clips(Dataset):
    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.phase = 6.28 * torch.rand(96, 1, generator=g)

    def __len__(self):
        return len(self.phase)

    def __getitem__(self, i):
        wave = torch.sin(self.phase[i] + 0.4 * torch.arange(17.0))
        return wave[:16], wave[16:]


def main(args):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    data = Clips(args.seed)
    sampler_seed = args.seed if args.fixed else 7919 * (args.seed + 1) * rank
    sampler = DistributedSampler(data, shuffle=True, seed=sampler_seed)
    loader = DataLoader(data, batch_size=12, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = epoch = 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for past, future in loader:
            loss = nn.functional.mse_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step >= args.steps:
                break
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
        epoch += 1
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    main(parser.parse_args())
