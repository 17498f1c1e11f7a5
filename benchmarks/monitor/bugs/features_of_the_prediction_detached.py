"""Of the two sides of a loss of features the prediction's is detached, not the target's: the term teaches nothing."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.detach.html
# first effect: step 0
# names: l1_loss
# family: loss
# detectable: yes a share of a loss that no gradients come to stands in the one that goes backward

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1))

    def forward(self, x):
        return F.pixel_shuffle(self.body(x), 2) + F.interpolate(x, scale_factor=2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    features.requires_grad_(False).eval()
    net = Upscaler()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(args.steps):
        large = F.avg_pool2d(torch.rand(8, 1, 18, 18), 3, 1)
        guess = net(F.avg_pool2d(large, 2))
        seen = features(guess)
        perceived = F.l1_loss(seen if args.fixed else seen.detach(), features(large))
        loss = F.l1_loss(guess, large) + 0.1 * perceived
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} features {perceived.item():.4f}")


if __name__ == "__main__":
    main()
