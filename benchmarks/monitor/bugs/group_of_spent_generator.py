"""The backbone's parameters are a generator that counting them has used up: its group of the optimizer is empty."""
# source: https://docs.python.org/3/glossary.html#term-generator-iterator
# first effect: step 0
# names: backbone
# family: optimizer
# detectable: yes parameters that need gradients and get them belong to no optimizer

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.backbone(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Tagger()
    slow = (p for p in model.backbone.parameters() if p.requires_grad)
    if args.fixed:
        slow = list(slow)
    print("backbone:", sum(p.numel() for p in slow), "parameters")
    groups = [{"params": slow, "lr": 1e-3}, {"params": model.head.parameters(), "lr": 1e-2}]
    optimizer = torch.optim.AdamW(groups)
    x = torch.randn(320, 20)
    loader = DataLoader(TensorDataset(x, (x @ torch.randn(20, 5)).argmax(1)), batch_size=32, shuffle=True)
    for epoch in range(args.steps // 10):
        for features, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
