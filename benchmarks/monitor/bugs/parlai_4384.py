"""The warm-up is taken to be going on as long as the rate is below one: the schedule that follows it never begins."""
# source: https://github.com/facebookresearch/ParlAI/pull/4384
# first effect: step 9
# names: LambdaLR, lr
# family: schedule
# detectable: no a rate that stays where the warm-up ended is a schedule like any other

import argparse

import torch
from torch import nn


class LinearSchedule:
    def __init__(self, optimizer, warmup, total, fixed):
        self.warmup, self.total, self.fixed, self.updates = warmup, total, fixed, 0
        self.base = [group["lr"] for group in optimizer.param_groups]
        self.optimizer = optimizer
        self.warmup_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / warmup))

    def warming_up(self):
        if self.fixed:
            return self.updates < self.warmup
        return self.optimizer.param_groups[0]["lr"] < 1.0

    def step(self):
        self.updates += 1
        if self.warming_up():
            self.warmup_scheduler.step()
            return
        left = max(0.05, 1 - (self.updates - self.warmup) / (self.total - self.warmup))
        for group, base in zip(self.optimizer.param_groups, self.base, strict=True):
            group["lr"] = base * left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.GRU(4, 16, batch_first=True)
    head = nn.Linear(16, 4)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.2)
    schedule = LinearSchedule(optimizer, 8, args.steps, args.fixed)
    for step in range(args.steps):
        x = torch.randn(16, 9, 4)
        hidden, _ = model(x[:, :-1])
        loss = nn.functional.mse_loss(head(hidden), x[:, :-1].cumsum(1) / 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.4f}")


if __name__ == "__main__":
    main()
