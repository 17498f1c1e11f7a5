"""The epoch that is set on a shuffled stream never reaches workers that persist: every epoch has the same order."""
# source: https://github.com/huggingface/datasets/issues/6673
# first effect: step 8
# names: loader0
# family: data
# detectable: yes each epoch gives the batches of the first one, in the same order

import argparse
import multiprocessing

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class ShuffledStream(IterableDataset):
    def __init__(self, count, seed, fixed):
        super().__init__()
        self.x = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
        self.seed = seed
        self.epoch = multiprocessing.Value("i", 0) if fixed else 0

    def set_epoch(self, epoch):
        if isinstance(self.epoch, int):
            self.epoch = epoch
        else:
            self.epoch.value = epoch

    def __iter__(self):
        epoch = self.epoch if isinstance(self.epoch, int) else self.epoch.value
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(self.seed + 31 * epoch))
        worker = get_worker_info()
        for i in order[worker.id :: worker.num_workers].tolist():
            yield self.x[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    stream = ShuffledStream(128, args.seed, args.fixed)
    loader = DataLoader(stream, batch_size=16, num_workers=2, persistent_workers=True)
    net = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.Linear(20, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(max(1, args.steps // 8)):
        stream.set_epoch(epoch)
        total = 0.0
        for x in loader:
            opt.zero_grad()
            loss = (net(x).squeeze(1) - x.prod(dim=1)).square().mean()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / 8:.4f}")


if __name__ == "__main__":
    main()
