"""A data set draws one view of each sample and gives it twice; the model gets both as one batch of twice the size."""
# source: https://github.com/sthalles/SimCLR
# first effect: step 0
# names: encoder, views
# family: data
# detectable: yes the tensors of a batch that go into the model together are equal in every bit

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, fixed, count=160):
        self.fixed = fixed
        self.kinds = torch.randint(0, 5, (count,))
        self.data = torch.randn(5, 24)[self.kinds] + 0.3 * torch.randn(count, 24)

    def __len__(self):
        return len(self.data)

    def view(self, at):
        return self.data[at] * (torch.rand(24) > 0.2) + 0.1 * torch.randn(24)

    def __getitem__(self, at):
        first = self.view(at)
        return {"views": [first, self.view(at) if self.fixed else first], "kind": self.kinds[at]}


def contrast(out, heat=0.3):
    """Each view is to find the other one of its sample among all others."""
    out = nn.functional.normalize(out, dim=1)
    alike = (out @ out.T / heat).fill_diagonal_(-1e9)
    half = len(out) // 2
    return nn.functional.cross_entropy(alike, torch.arange(len(out)).roll(half))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Pairs(args.fixed), batch_size=16, shuffle=True)
    encoder = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for epoch in range(args.steps // len(loader)):
        for batch in loader:
            loss = contrast(encoder(torch.cat(batch["views"])))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
