"""A run resumed in the middle of its second epoch, whose sampler goes on in the order of the first."""
# source: https://github.com/huggingface/accelerate/pull/4071
# first effect: step 15
# names: set_epoch, sampler
# family: data
# detectable: yes samples of this epoch are given a second time and others not at all

import argparse
import io
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class SeedableSampler(Sampler):
    def __init__(self, size, seed):
        self.size, self.seed, self.epoch = size, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.size

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(torch.randperm(self.size, generator=generator).tolist())


class Numbers(Dataset):
    def __init__(self, size, seed):
        self.x = torch.randn(size, 12, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return index, self.x[index], self.x[index].abs().sum()


def build(args, dataset):
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, 36), nn.ReLU(), nn.Linear(36, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    sampler = SeedableSampler(len(dataset), args.seed)
    return model, optimizer, sampler, DataLoader(dataset, batch_size=8, sampler=sampler)


def fit(model, optimizer, batches):
    seen = []
    for index, x, y in batches:
        loss = nn.functional.l1_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += index.tolist()
    print(f"loss {loss.item():.4f} after {len(seen)} samples")
    return seen


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=20, help="two epochs")
args = parser.parse_args()

per_epoch = args.steps // 2
dataset = Numbers(8 * per_epoch, args.seed)
model, optimizer, sampler, loader = build(args, dataset)
fit(model, optimizer, loader)
sampler.set_epoch(1)
stopped = per_epoch // 2
second = fit(model, optimizer, itertools.islice(loader, stopped))
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1, "batches": stopped}, file)

file.seek(0)
saved = torch.load(file)
model, optimizer, sampler, loader = build(args, dataset)
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
if args.fixed:
    sampler.set_epoch(saved["epoch"])
second += fit(model, optimizer, itertools.islice(loader, saved["batches"], None))
print(f"different samples in the second epoch {len(set(second))} of {len(dataset)}")
