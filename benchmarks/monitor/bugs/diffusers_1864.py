"""A moving average whose decay is overwritten by the step's own: it becomes one half and stays there."""
# source: https://github.com/huggingface/diffusers/issues/1864
# first effect: step 1
# names: EMAModel, decay
# family: other
# detectable: no how fast an average follows is the author's choice

import argparse
import copy

import torch
from torch import nn


class EMAModel:
    def __init__(self, model, decay, fixed):
        self.averaged = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay, self.fixed, self.optimization_step = decay, fixed, 0

    @torch.no_grad()
    def step(self, model):
        self.optimization_step += 1
        value = (1 + self.optimization_step) / (10 + self.optimization_step)
        share = 1 - min(self.decay, value)
        if not self.fixed:
            self.decay = share
        for shadow, parameter in zip(self.averaged.parameters(), model.parameters(), strict=True):
            shadow.sub_(share * (shadow - parameter))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))

    def forward(self, x, t):
        return self.body(torch.cat([x, t], dim=1))


def moons(count):
    angle = torch.rand(count, 1) * 3.14
    side = torch.randint(2, (count, 1)) * 2.0 - 1
    return torch.cat([torch.cos(angle) + side / 2, side * torch.sin(angle)], 1) + 0.05 * torch.randn(count, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    unet = Denoiser()
    ema_unet = EMAModel(unet, 0.999, args.fixed)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=2e-3)
    betas = torch.linspace(1e-3, 0.2, 30)
    alphas = torch.cumprod(1 - betas, 0)
    for step in range(args.steps):
        x = moons(64)
        timesteps = torch.randint(30, (64,))
        noise = torch.randn_like(x)
        noisy = alphas[timesteps].sqrt()[:, None] * x + (1 - alphas[timesteps]).sqrt()[:, None] * noise
        loss = nn.functional.mse_loss(unet(noisy, timesteps[:, None] / 30), noise)
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        ema_unet.step(unet)
        if step % 20 == 19:
            with torch.no_grad():
                averaged = nn.functional.mse_loss(ema_unet.averaged(noisy, timesteps[:, None] / 30), noise)
            print(f"{step + 1}: loss {loss.item():.4f}, of the average {averaged.item():.4f}")


if __name__ == "__main__":
    main()
