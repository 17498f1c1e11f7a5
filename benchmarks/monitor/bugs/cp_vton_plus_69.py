"""Geometric matching of clothes with a rate that is to stay and then to fall; the schedule is made and its step is never called."""
# source: https://github.com/minar09/cp-vton-plus/issues/69
# first effect: step 21
# names: LambdaLR, lr
# family: schedule
# detectable: yes a schedule is made for the optimizer and never stepped

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.person = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1)
        )
        self.cloth = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 4, 2, 1))
        self.regress = nn.Linear(2 * 16 * 16, 6)

    def forward(self, person, cloth):
        theta = self.regress(torch.cat([self.person(person), self.cloth(cloth)], 1).flatten(1)).view(-1, 2, 3)
        theta = theta * 0.1 + torch.eye(2, 3)
        return F.grid_sample(cloth, F.affine_grid(theta, list(cloth.shape), align_corners=False), align_corners=False)


def train_gmm(opt, model, batches):
    criterion = nn.L1Loss()
    optimizer = torch.optim.Adam(model.parameters(), lr=opt.lr, betas=(0.5, 0.999))
    keep_step = opt.steps // 2
    decay_step = opt.steps - keep_step
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lr_lambda=lambda step: 1.0 - max(0, step - keep_step) / float(decay_step + 1)
    )
    model.train()
    for step in range(opt.steps):
        person, cloth, worn = batches(step)
        loss = criterion(model(person, cloth), worn)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if opt.fixed:
            scheduler.step()
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}, loss {loss.item():.4f}, lr {optimizer.param_groups[0]['lr']:.2e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lr", type=float, default=1e-3)
    opt = parser.parse_args()
    torch.manual_seed(opt.seed)

    def batches(step):
        cloth = F.interpolate(torch.rand(8, 1, 4, 4), size=16)
        worn = torch.roll(cloth, 2, 3)
        return torch.cat([torch.rand(8, 2, 16, 16), worn * 0.5], 1), cloth, worn

    train_gmm(opt, Matcher(), batches)


if __name__ == "__main__":
    main()
