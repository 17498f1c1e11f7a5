"""A denoiser is validated with its averaged weights, which are put into the network and stay there."""
# source: https://github.com/huggingface/diffusers/issues/7549
# first effect: step 10
# names: unet
# family: optimizer
# detectable: yes between two steps the weights that are trained become others, and nothing gives them back

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class EMAModel:
    def __init__(self, parameters, decay):
        self.shadow = [parameter.detach().clone() for parameter in parameters]
        self.decay, self.stored = decay, None

    @torch.no_grad()
    def step(self, parameters):
        for mean, parameter in zip(self.shadow, parameters, strict=True):
            mean.lerp_(parameter, 1 - self.decay)

    @torch.no_grad()
    def store(self, parameters):
        self.stored = [parameter.detach().clone() for parameter in parameters]

    @torch.no_grad()
    def copy_to(self, parameters, values=None):
        for value, parameter in zip(values or self.shadow, parameters, strict=True):
            parameter.copy_(value)

    def restore(self, parameters):
        self.copy_to(parameters, self.stored)
        self.stored = None


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 24)
        self.down, self.mid, self.up = nn.Linear(8, 24), nn.Linear(24, 24), nn.Linear(48, 8)

    def forward(self, noisy, t):
        hidden = F.silu(self.down(noisy) + self.time(t))
        return self.up(torch.cat([hidden, F.silu(self.mid(hidden))], 1))


def noised(latents):
    t, noise = torch.rand(len(latents), 1), torch.randn_like(latents)
    return latents * (1 - t) + noise * t, t, noise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    latents = torch.randn(320, 3) @ torch.randn(3, 8)
    held_out = latents[-64:]
    unet = UNet()
    ema_unet = EMAModel(unet.parameters(), decay=0.9)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=4e-3, weight_decay=1e-2)
    for epoch in range(args.steps // 10):
        unet.train()
        for step in range(10):
            noisy, t, noise = noised(latents[step * 25 : step * 25 + 25])
            loss = F.mse_loss(unet(noisy, t), noise)
            loss.backward()
            nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            ema_unet.step(unet.parameters())
        ema_unet.store(unet.parameters())
        ema_unet.copy_to(unet.parameters())
        unet.eval()
        with torch.no_grad():
            noisy, t, noise = noised(held_out)
            print(f"epoch {epoch}: train {loss.item():.4f}, held out {F.mse_loss(unet(noisy, t), noise).item():.4f}")
        if args.fixed:
            ema_unet.restore(unet.parameters())


if __name__ == "__main__":
    main()
