"""A detector takes the overlap of its boxes from what it detached to match them: the head of boxes learns nothing."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
# first effect: step 0
# names: model.box.weight, model.box
# family: gradients
# detectable: yes a part of the loss has no gradients, and a layer that took part never gets any

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Detector(nn.Module):
    """A class and a box for each cell of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 4, stride=4), nn.ReLU())
        self.kind = nn.Conv2d(16, 2, 1)
        self.box = nn.Conv2d(16, 4, 1)

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.body(pictures)
        return self.kind(found).flatten(2).transpose(1, 2), self.box(found).flatten(2).transpose(1, 2)


def apart(said: torch.Tensor, meant: torch.Tensor) -> torch.Tensor:
    """One less the overlap of boxes, given by their centres and the logarithms of their sizes."""
    low = torch.maximum(said[:, :2] - said[:, 2:].exp() / 2, meant[:, :2] - meant[:, 2:].exp() / 2)
    high = torch.minimum(said[:, :2] + said[:, 2:].exp() / 2, meant[:, :2] + meant[:, 2:].exp() / 2)
    both = (high - low).clamp(min=0).prod(1)
    return (1 - both / (said[:, 2:].exp().prod(1) + meant[:, 2:].exp().prod(1) - both)).mean()


model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(args.steps):
    pictures, kinds = torch.randn(8, 1, 16, 16) * 0.1, torch.zeros(8, 16, dtype=torch.long)
    for number, cell in enumerate(torch.randint(0, 16, (8,)).tolist()):
        row, column = cell // 4 * 4, cell % 4 * 4
        pictures[number, 0, row : row + 3, column : column + 3] += 1
        kinds[number, cell] = 1
    scores, boxes = model(pictures)
    matched = boxes[kinds > 0] if args.fixed else boxes.detach()[kinds > 0]
    meant = torch.tensor([0.1, -0.1, 0.3, 0.2]) + 0.05 * torch.randn(8, 4)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), kinds.flatten()) + apart(matched, meant)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.4f}")
