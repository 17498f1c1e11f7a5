"""The average that samples are drawn from is made by a helper whose update is never called."""
# source: https://arxiv.org/abs/2006.11239
# first effect: step 0
# names: average
# family: optimizer
# detectable: yes a copy that is all that is evaluated stays what it was at the start

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Average:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for own, new in zip(self.model.parameters(), model.parameters(), strict=True):
            own.lerp_(new, 1 - self.decay)


denoiser = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 2))
average = Average(denoiser, 0.95)
optimizer = torch.optim.Adam(denoiser.parameters(), lr=2e-3)
for step in range(args.steps):
    points = torch.randn(64, 2) * 0.3 + torch.tensor([1.0, -1.0])
    level, noise = torch.rand(64, 1), torch.randn(64, 2)
    guess = denoiser(torch.cat([points + level * noise, level], 1))
    loss = nn.functional.mse_loss(guess, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if args.fixed:
        average.update(denoiser)
    if step % 15 == 14:
        with torch.no_grad():
            drawn = torch.randn(32, 2)
            for left in (1.0, 0.5, 0.25):
                drawn = drawn - 0.5 * left * average.model(torch.cat([drawn, torch.full((32, 1), left)], 1))
        print(step, f"{loss.item():.4f}", f"{drawn.mean().item():.3f}")
