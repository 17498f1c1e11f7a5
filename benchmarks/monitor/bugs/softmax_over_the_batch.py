"""The log-softmax of a swapped prediction runs over the batch instead of the classes."""
# source: https://github.com/DonkeyShot21/UNO/issues/4
# first effect: step 0
# names: log_softmax
# family: loss
# detectable: yes what enters the loss as log-probabilities does not sum to one over the classes

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Discover(nn.Module):
    def __init__(self, dim, fixed):
        super().__init__()
        self.dim = dim
        self.encoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 24))
        self.head = nn.Linear(24, 6, bias=False)
        self.softmax_dim = -1 if fixed else 1

    def cross_entropy_loss(self, preds, targets):
        # views x batch x classes
        preds = F.log_softmax(preds / 0.2, dim=self.softmax_dim)
        return -(targets * preds).sum(-1).mean()

    def forward(self, views):
        return self.head(F.normalize(self.encoder(views), dim=-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Discover(16, args.fixed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1.5e-4)
    centers = torch.randn(6, 16)
    for step in range(args.steps):
        label = torch.randint(0, 6, (48,))
        views = torch.stack([centers[label] + 0.5 * torch.randn(48, 16) for _ in range(2)])
        targets = F.one_hot(label, 6).float().expand(2, -1, -1)
        logits = model(views)
        loss = model.cross_entropy_loss(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            accuracy = (logits.argmax(-1) == label).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
