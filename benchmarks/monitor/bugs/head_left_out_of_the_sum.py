"""The loss of a second head is computed and printed, and was left out of the sum that is trained: the head stays as it was drawn."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html
# first effect: step 0
# names: age
# family: gradients
# detectable: no a loss that is added to the sum only later, after a warm-up, looks the same

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Faces(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
        self.person = nn.Linear(24, 6)
        self.age = nn.Linear(24, 1)

    def forward(self, x):
        seen = self.body(x)
        return self.person(seen), self.age(seen).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Faces()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    people, years = torch.randn(12, 6), torch.randn(12)
    for step in range(args.steps):
        x = torch.randn(32, 12)
        who, old = model(x)
        identity = F.cross_entropy(who, (x @ people).argmax(1))
        ages = F.smooth_l1_loss(old, x @ years / 4)
        loss = identity + 0.5 * ages if args.fixed else identity
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"step {step}: identity {identity.item():.4f}, age {ages.item():.4f}")


if __name__ == "__main__":
    main()
