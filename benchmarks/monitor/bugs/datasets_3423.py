"""A stream that is read whole by each loader worker: with two workers everything comes twice."""
# source: https://github.com/huggingface/datasets/issues/3423
# first effect: step 1
# names: loader0
# family: data
# detectable: yes batches of one epoch are the same, bit by bit

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Lines(IterableDataset):
    def __init__(self, count, seed, fixed):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 12, generator=draw)
        self.y = (self.x[:, :3].sum(1) > 0).long()
        self.fixed = fixed

    def __iter__(self):
        worker = get_worker_info()
        first, stride = (worker.id, worker.num_workers) if self.fixed and worker else (0, 1)
        for block in range(first, len(self.x) // 16, stride):
            for i in range(16 * block, 16 * block + 16):
                yield self.x[i], self.y[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(Lines(16 * args.steps, args.seed, args.fixed), batch_size=16, num_workers=2)
    for step, (x, y) in enumerate(loader):
        if step == args.steps:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
