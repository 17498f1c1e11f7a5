"""A classifier whose dropout stands behind its last layer: a share of the scores that the loss is given is zero at random."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
# first effect: step 0
# names: dropout
# family: loss
# detectable: yes the scores that the loss is given come out of dropout

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Net(nn.Module):
    """A convolution and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.hidden = nn.Linear(128, 32)
        self.scores = nn.Linear(32, 4)
        self.drop = nn.Dropout(0.3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = nn.functional.max_pool2d(self.conv(images).relu(), 2).flatten(1)
        found = self.hidden(found).relu()
        return self.scores(self.drop(found)) if args.fixed else self.drop(self.scores(found))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(args.steps):
    images = torch.randn(32, 1, 8, 8)
    labels = (images[:, 0, :4].mean((1, 2)) > 0).long() + 2 * (images[:, 0, 4:].mean((1, 2)) > 0).long()
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.4f}")
