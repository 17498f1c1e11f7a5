"""A model that drops by its own mode, with no layer for it, is never put back into training mode after an evaluation."""
# source: https://pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
# first effect: step 6
# names: model
# family: mode
# detectable: yes the passes that train are in evaluation mode since an evaluation, and dropped before

import argparse

import torch
from torch import nn
from torch.nn import functional


class Mixing(nn.Module):
    """Mixes the features of neighbours, after some of them were dropped."""

    def __init__(self, width, classes):
        super().__init__()
        self.first = nn.Linear(width, 32)
        self.second = nn.Linear(32, classes)

    def forward(self, features, near):
        features = functional.dropout(features, 0.3, training=self.training)
        hidden = torch.relu(near @ self.first(features))
        hidden = functional.dropout(hidden, 0.5, training=self.training)
        return near @ self.second(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    labels = torch.randint(0, 4, (96,))
    features = nn.functional.one_hot(labels, 4).float().repeat(1, 3) + 0.5 * torch.randn(96, 12)
    near = ((labels[:, None] == labels) & (torch.rand(96, 96) < 0.2)).float() + torch.eye(96)
    near = near / near.sum(dim=1, keepdim=True)
    model = Mixing(12, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        if args.fixed:
            model.train()
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(features, near)[:64], labels[:64])
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            model.eval()
            with torch.no_grad():
                right = (model(features, near)[64:].argmax(dim=1) == labels[64:]).float().mean()
            print(f"step {step} loss {loss.item():.4f} right {right.item():.3f}")


if __name__ == "__main__":
    main()
