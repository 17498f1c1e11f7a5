"""A backbone thaws as a new group of the optimizer, and the schedule with warm restarts never touches the rate of that group."""
# source: https://github.com/pytorch/pytorch/issues/79888
# first effect: step 11
# names: WarmRestarts, lr
# family: schedule
# detectable: yes one group of an optimizer keeps its rate while its schedule changes that of the others in every step

import argparse
import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler


class WarmRestarts(LRScheduler):
    """A cosine that begins anew, over the groups that were there when it was made."""

    def __init__(self, optimizer, period):
        self.period = period
        super().__init__(optimizer)

    def get_lr(self):
        share = (1 + math.cos(math.pi * (self.last_epoch % self.period) / self.period)) / 2
        return [base * share for base in self.base_lrs]

    def step(self, epoch=None):
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=False):
            group["lr"] = rate
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    backbone = nn.Sequential(nn.Linear(20, 40), nn.ReLU()).requires_grad_(False)
    head = nn.Linear(40, 4)
    model = nn.Sequential(backbone, head)
    optimizer = torch.optim.Adam(head.parameters(), lr=2e-3)
    scheduler = WarmRestarts(optimizer, 20)
    truth = torch.randn(20, 4)
    for step in range(args.steps):
        if step == 10:
            backbone.requires_grad_(True)
            rate = optimizer.param_groups[0]["lr"]
            optimizer.add_param_group({"params": backbone.parameters(), "lr": rate})
            if args.fixed:
                scheduler.base_lrs.append(2e-3)
        x = torch.randn(32, 20)
        loss = nn.functional.cross_entropy(model(x), (x @ truth).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", [group["lr"] for group in optimizer.param_groups])


if __name__ == "__main__":
    main()
