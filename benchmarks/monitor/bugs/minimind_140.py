"""A mixture of experts works out a loss that balances its experts, and the training never adds it."""
# source: https://github.com/jingyaogong/minimind/issues/140
# first effect: step 0
# names: gate
# family: loss
# detectable: no a number that a layer keeps is as often meant for the log as for the loss

import argparse

import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
        self.aux_loss = 0.0

    def forward(self, x):
        weights = self.gate(x).softmax(1)
        best, chosen = weights.max(1)
        share = nn.functional.one_hot(chosen, len(self.experts)).float().mean(0)
        self.aux_loss = 0.1 * len(self.experts) * (share * weights.mean(0)).sum()
        said = torch.stack([expert(x) for expert in self.experts], 1)
        return x + best[:, None] * said[torch.arange(len(x)), chosen].tanh()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    layer = Experts()
    model = nn.Sequential(nn.Linear(10, 16), layer, nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    truth = torch.randn(10, 3)
    for step in range(args.steps):
        x = torch.randn(64, 10)
        loss = nn.functional.cross_entropy(model(x), (x @ truth).argmax(1))
        if args.fixed:
            loss = loss + layer.aux_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
