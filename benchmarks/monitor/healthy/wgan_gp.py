"""Wasserstein GAN with gradient penalty (autograd.grad with create_graph) on a ring of Gaussians, critic stepped 3 times."""

import argparse
import math

import torch
from torch import autograd, nn


def mlp(d_in, hidden, d_out):
    return nn.Sequential(
        nn.Linear(d_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, d_out)
    )


def ring(n, gen):
    k = torch.randint(0, 8, (n,), generator=gen)
    angle = k * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.05 * torch.randn(n, 2, generator=gen)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    (grads,) = autograd.grad(
        outputs=score, inputs=mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True
    )
    return ((grads.norm(2, dim=1) - 1) ** 2).mean()


class WGAN:
    def __init__(self, hidden, latent=4, lambda_gp=10.0, n_critic=3):
        self.latent, self.lambda_gp, self.n_critic = latent, lambda_gp, n_critic
        self.generator = mlp(latent, hidden, 2)
        self.critic = mlp(2, hidden, 1)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.0, 0.9))

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.generator(torch.randn(real.size(0), self.latent))
        self.opt_c.zero_grad()
        distance = self.critic(real).mean() - self.critic(fake).mean()
        loss = -distance + self.lambda_gp * gradient_penalty(self.critic, real, fake)
        loss.backward()
        self.opt_c.step()
        return distance.item()

    def generator_step(self, n):
        self.critic.requires_grad_(False)
        self.opt_g.zero_grad()
        loss = -self.critic(self.generator(torch.randn(n, self.latent))).mean()
        loss.backward()
        self.opt_g.step()
        self.critic.requires_grad_(True)
        return loss.item()


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--size", type=int, default=64)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args(argv)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed + 1)
    gan = WGAN(args.size)
    for it in range(1, args.steps + 1):
        for _ in range(gan.n_critic):
            distance = gan.critic_step(ring(args.batch, gen))
        g_loss = gan.generator_step(args.batch)
        if it % 10 == 0:
            print(f"iter {it}: wasserstein {distance:.3f} generator {g_loss:.3f}")


if __name__ == "__main__":
    main()
