"""The loss of an auxiliary head is added as a number: `.item()` has cut it off, and the head never learns."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.item.html
# first effect: step 0
# names: depth
# family: gradients
# detectable: yes parameters that an optimizer holds and that the forward pass uses never get a gradient

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.classes = nn.Conv2d(8, 4, 1)
        self.depth = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        features = self.trunk(x)
        return self.classes(features), self.depth(features)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

net = TwoHeads()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(args.steps):
    image = torch.rand(8, 3, 12, 12)
    labels = (image.argmax(1) + (image.mean(1) > 0.6)).long()
    depth = image.mean(1, keepdim=True)
    logits, guess = net(image)
    loss = F.cross_entropy(logits, labels)
    auxiliary = 0.5 * F.l1_loss(guess, depth)
    loss = loss + (auxiliary if args.fixed else auxiliary.item())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, round(loss.item(), 4))
