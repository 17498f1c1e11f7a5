"""`__getitem__` normalises a view of the stored data in place: each epoch normalises once more what is normalised."""
# source: https://docs.pytorch.org/docs/stable/tensor_view.html
# first effect: step 8
# names: loader0
# family: data
# detectable: yes the same samples come in another scale at every epoch

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Readings(Dataset):
    def __init__(self, fixed):
        generator = torch.Generator().manual_seed(3)
        self.x = torch.randn(256, 8, generator=generator) * 6 + 20
        self.y = (self.x[:, 0] - self.x[:, 1]) / 6
        self.mean, self.std = self.x.mean(), self.x.std()
        self.fixed = fixed

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = self.x[index]
        if self.fixed:
            x = (x - self.mean) / self.std
        else:
            x -= self.mean
            x /= self.std
        return x, self.y[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Readings(args.fixed), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.steps // 8):
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
