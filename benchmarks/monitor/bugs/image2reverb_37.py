"""The generator's step shows the discriminator a detached picture: the adversarial loss never reaches the generator."""
# source: https://github.com/nikhilsinghmus/image2reverb/issues/37
# first effect: step 1
# names: discriminator, generator
# family: gradients
# detectable: yes a backward pass through the discriminator leaves gradients only there, and they are thrown away unused

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    mixing = torch.randn(12, 32) / 3
    for step in range(args.steps // 2):
        scene = torch.randn(24, 12)
        sound = torch.tanh(scene @ mixing + 0.2 * torch.randn(24, 32))

        fake = generator(scene)
        real_score, fake_score = discriminator(sound), discriminator(fake.detach())
        d_loss = ((real_score - 1) ** 2).mean() + (fake_score**2).mean()
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()

        score = discriminator(fake if args.fixed else fake.detach())
        g_loss = ((score - 1) ** 2).mean() + 0.5 * nn.functional.l1_loss(fake, sound)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        if step % 4 == 0:
            print(f"step {step} generator {g_loss.item():.4f} discriminator {d_loss.item():.4f}")


if __name__ == "__main__":
    main()
