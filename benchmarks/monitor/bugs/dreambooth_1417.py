"""A moving average of the weights in bfloat16, whose steps are too small for that type, so that it stays where it began."""
# source: https://github.com/d8ahazard/sd_dreambooth_extension/pull/1417
# first effect: step 0
# names: ema
# family: precision
# detectable: yes an average is updated at every step and most of its values never change

import argparse
import copy

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 32)
        self.inp = nn.Linear(6, 32)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 6))

    def forward(self, x, t):
        return self.out(self.inp(x) + self.time(t))


class EMAModel:
    def __init__(self, model, dtype, decay=0.999):
        self.decay = decay
        self.averaged_model = copy.deepcopy(model).to(dtype).requires_grad_(False)

    @torch.no_grad()
    def step(self, model):
        for average, p in zip(self.averaged_model.parameters(), model.parameters(), strict=True):
            average.sub_((1 - self.decay) * (average - p.to(average.dtype)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    unet = Denoiser()
    ema = EMAModel(unet, torch.float32 if args.fixed else torch.bfloat16)
    before = [p.clone() for p in ema.averaged_model.parameters()]
    optimizer = torch.optim.AdamW(unet.parameters(), lr=2e-3)
    for step in range(args.steps):
        clean = torch.randn(32, 6).sign() * 0.8
        noise, t = torch.randn(32, 6), torch.rand(32, 1)
        loss = (unet((1 - t) * clean + t * noise, t) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(unet)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    after = list(ema.averaged_model.parameters())
    same = sum((a == b).sum().item() for a, b in zip(after, before, strict=True))
    print(f"{same} of {sum(b.numel() for b in before)} averages are still what they were")


if __name__ == "__main__":
    main()
