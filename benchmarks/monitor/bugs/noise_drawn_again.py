"""The noise that a denoiser is to find is drawn once for its input and once more for its loss."""
# source: https://github.com/lucidrains/denoising-diffusion-pytorch/blob/main/denoising_diffusion_pytorch/denoising_diffusion_pytorch.py
# first effect: step 0
# names: mse_loss, MseLoss
# family: loss
# detectable: yes the targets of the loss are drawn at random after the model has answered

import argparse

import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.moment = nn.Embedding(100, 32)
        self.enter, self.inner, self.leave = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, points, moment):
        hidden = torch.relu(self.enter(points) + self.moment(moment))
        return self.leave(torch.relu(self.inner(hidden)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    centres = torch.tensor([[1.0, 0.0], [-1.0, 0.5]])
    points = centres[torch.randint(2, (1000,))] + 0.1 * torch.randn(1000, 2)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.05, 100), 0)
    net = Denoiser()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for number in range(args.steps):
        clean, moment = points[torch.randint(1000, (32,))], torch.randint(100, (32,))
        noise = torch.randn_like(clean)
        share = kept[moment][:, None]
        found = net(share.sqrt() * clean + (1 - share).sqrt() * noise, moment)
        loss = nn.functional.mse_loss(found, noise if args.fixed else torch.randn_like(clean))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 12 == 11:
            print(f"step {number}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
