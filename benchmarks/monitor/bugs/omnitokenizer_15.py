"""A tokenizer of videos and its discriminator under accumulation: the discriminator keeps what the generator's loss left in it."""
# source: https://github.com/FoundationVision/OmniTokenizer/issues/15
# first effect: step 1
# names: discriminator
# family: gradients
# detectable: yes the discriminator's gradients hold those of the generator's loss when it steps

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv3d(1, 8, 2, 2)
        self.codebook = nn.Parameter(torch.randn(16, 8))
        self.decoder = nn.ConvTranspose3d(8, 1, 2, 2)

    def forward(self, video):
        z = self.encoder(video).permute(0, 2, 3, 4, 1)
        code = self.codebook[torch.cdist(z.reshape(-1, 8), self.codebook).argmin(1)].view_as(z)
        commitment = F.mse_loss(z, code.detach()) + F.mse_loss(code, z.detach())
        return self.decoder((z + (code - z).detach()).permute(0, 4, 1, 2, 3)), commitment


class Model:
    def __init__(self, fixed):
        self.tokenizer = Tokenizer()
        self.discriminator = nn.Sequential(nn.Conv3d(1, 8, 2, 2), nn.LeakyReLU(0.2), nn.Conv3d(8, 1, 2))
        self.opt_ae = torch.optim.Adam(self.tokenizer.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.opt_disc = torch.optim.Adam(self.discriminator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.fixed = fixed

    def training_step(self, video, optimizer_idx):
        rebuilt, commitment = self.tokenizer(video)
        if optimizer_idx == 0:
            return F.l1_loss(rebuilt, video) + commitment - 0.1 * self.discriminator(rebuilt).mean()
        real, fake = self.discriminator(video), self.discriminator(rebuilt.detach())
        return 0.5 * (F.relu(1 - real).mean() + F.relu(1 + fake).mean())

    def fit(self, videos, steps, accumulate=2):
        for step in range(steps):
            for micro in range(accumulate):
                video = videos(step, micro)
                if self.fixed:
                    self.discriminator.requires_grad_(False)
                loss_ae = self.training_step(video, 0) / accumulate
                loss_ae.backward()
                self.discriminator.requires_grad_(True)
                loss_disc = self.training_step(video, 1) / accumulate
                loss_disc.backward()
            for optimizer in (self.opt_ae, self.opt_disc):
                optimizer.step()
                optimizer.zero_grad()
            if step % 10 == 9:
                print(f"step {step + 1}: ae {loss_ae.item():.4f}, disc {loss_disc.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    def videos(step, micro):
        still = F.interpolate(torch.randn(4, 1, 1, 4, 4), size=(4, 8, 8))
        return still + 0.1 * torch.randn_like(still)

    Model(args.fixed).fit(videos, args.steps // 2)


if __name__ == "__main__":
    main()
