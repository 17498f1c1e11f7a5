"""The discriminator's backward pass goes on into the encoder, and the encoder's step takes those gradients along."""
# source: https://github.com/YannDubs/disentangling-vae/issues/77
# first effect: step 0
# names: encoder
# family: gradients
# detectable: yes the encoder's step uses gradients of two losses, one of which is the one that the discriminator steps on

import argparse

import torch
from torch import nn


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 12))
        self.decoder = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 30))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(code), mean, log_var, code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    vae = Vae()
    judge = nn.Sequential(nn.Linear(6, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(vae.parameters(), lr=2e-3)
    d_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
    data = torch.randn(512, 5) @ torch.randn(5, 30)
    for step in range(args.steps // 2):
        one, other = data[torch.randint(0, 512, (2, 32))]
        again, mean, log_var, code = vae(one)
        score = judge(code)
        tc = (score[:, 0] - score[:, 1]).mean()
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        loss = nn.functional.mse_loss(again, one, reduction="sum") / 32 + kl + 4 * tc
        optimizer.zero_grad()
        loss.backward(retain_graph=True)

        held = vae(other)[3].detach()
        mixed = torch.stack([held[torch.randperm(32), i] for i in range(6)], dim=1)
        d_optimizer.zero_grad()
        seen = judge(code.detach() if args.fixed else code)
        d_loss = 0.5 * (
            nn.functional.cross_entropy(seen, torch.zeros(32, dtype=torch.long))
            + nn.functional.cross_entropy(judge(mixed), torch.ones(32, dtype=torch.long))
        )
        d_loss.backward()
        optimizer.step()
        d_optimizer.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f} judge {d_loss.item():.4f}")


if __name__ == "__main__":
    main()
