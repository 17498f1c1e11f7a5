"""Two ranks split the data with the same seed, share the larger part by DistributedSampler, and score the other together."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, random_split


class Signals(Dataset):
    """Impulses at one of four places, in noise."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.signals = 0.6 * torch.randn(count, 1, 32, generator=generator)
        for row, label in enumerate(self.labels):
            self.signals[row, 0, 8 * int(label) : 8 * int(label) + 4] += 1.5

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.signals[index], self.labels[index]


def score(model, loader):
    model.eval()
    found = torch.zeros(2)
    with torch.no_grad():
        for x, y in loader:
            found += torch.tensor([(model(x).argmax(1) == y).sum(), len(y)], dtype=torch.float)
    dist.all_reduce(found)
    model.train()
    return (found[0] / found[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--size", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    data = Signals(480, args.seed)
    train, held = random_split(data, [400, 80], generator=torch.Generator().manual_seed(args.seed))
    sampler = DistributedSampler(train, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(train, batch_size=16, sampler=sampler, drop_last=True)
    held_loader = DataLoader(held, batch_size=20, sampler=DistributedSampler(held, shuffle=False))
    net = nn.Sequential(
        nn.Conv1d(1, args.size, 5, padding=2), nn.ReLU(), nn.AvgPool1d(4), nn.Flatten(), nn.Linear(8 * args.size, 4)
    )
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step = epoch = 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        accuracy = score(net, held_loader)
        if dist.get_rank() == 0:
            print(f"epoch {epoch} step {step}: loss {loss.item():.4f}, held out {accuracy:.3f}", flush=True)
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
