"""A warm-up schedule restored with the schedule inside it, which goes on steering the optimizer that was saved."""
# source: https://github.com/ildoonet/pytorch-gradual-warmup-lr/issues/27
# first effect: step 21
# names: after_scheduler, GradualWarmup, lr
# family: checkpoint
# detectable: yes a schedule is stepped and the rate of the optimizer that trains stands still

import argparse
import io

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler


class GradualWarmup(LRScheduler):
    def __init__(self, optimizer, total, after_scheduler):
        self.total, self.after_scheduler = total, after_scheduler
        super().__init__(optimizer)

    def get_lr(self):
        return [base * min(1.0, (self.last_epoch + 1) / self.total) for base in self.base_lrs]

    def step(self, epoch=None):
        if getattr(self, "_step_count", 0) > self.total:
            self.last_epoch += 1
            self._step_count += 1
            self.after_scheduler.step()
            self._last_lr = self.after_scheduler.get_last_lr()
        else:
            super().step(epoch)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.whole = nn.Linear(32, 3)

    def forward(self, points):
        return self.whole(self.local(points).amax(1))


def parts(steps):
    model = PointNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    after = CosineAnnealingLR(optimizer, steps, eta_min=1e-3)
    return model, optimizer, GradualWarmup(optimizer, 5, after)


def clouds(count):
    kind = torch.randint(3, (count,))
    points = torch.randn(count, 24, 3)
    points[torch.arange(count), :, kind] *= 3.0
    return points, kind


def train(model, optimizer, scheduler, first, last):
    model.train()
    for step in range(first, last):
        points, kind = clouds(32)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), kind)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"{step}: loss {loss.item():.3f}, rate {optimizer.param_groups[0]['lr']:.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=45)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model, optimizer, scheduler = parts(args.steps)
    train(model, optimizer, scheduler, 0, 20)
    checkpoint = io.BytesIO()
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    torch.save(states, checkpoint)
    checkpoint.seek(0)

    model, optimizer, scheduler = parts(args.steps)
    states = torch.load(checkpoint, weights_only=False)
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    scheduler.load_state_dict(states["scheduler"])
    if args.fixed:
        scheduler.after_scheduler.optimizer = optimizer
    train(model, optimizer, scheduler, 20, args.steps)


if __name__ == "__main__":
    main()
