"""An autoencoder whose codes are made to look drawn from a prior by a critic: both losses go back before either steps."""

import argparse

import torch
from torch import nn


class Coder(nn.Module):
    def __init__(self, size, width=10, code=4):
        super().__init__()
        self.inward = nn.Sequential(nn.Linear(width, size), nn.ReLU(), nn.Linear(size, code))
        self.outward = nn.Sequential(nn.Linear(code, size), nn.ReLU(), nn.Linear(size, width))

    def forward(self, x):
        code = self.inward(x)
        return code, self.outward(code)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    coder = Coder(args.size)
    critic = nn.Sequential(nn.Linear(4, args.size), nn.LeakyReLU(0.2), nn.Linear(args.size, 1))
    coder_optimizer = torch.optim.Adam(coder.parameters(), lr=2e-3)
    critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    judge = nn.BCEWithLogitsLoss()
    mixing = torch.randn(3, 10)
    for step in range(args.steps):
        x = torch.randn(24, 3) @ mixing + 0.05 * torch.randn(24, 10)
        code, again = coder(x)

        coder_optimizer.zero_grad()
        fooled = judge(critic(code), torch.ones(24, 1))
        rebuilt = nn.functional.mse_loss(again, x)
        (rebuilt + 0.1 * fooled).backward()

        critic_optimizer.zero_grad()
        drawn, made = critic(torch.randn(24, 4)), critic(code.detach())
        apart = judge(drawn, torch.ones(24, 1)) + judge(made, torch.zeros(24, 1))
        apart.backward()

        coder_optimizer.step()
        critic_optimizer.step()
        if step % 8 == 0:
            print(f"step {step} rebuilt {rebuilt.item():.4f} apart {apart.item():.4f}")


if __name__ == "__main__":
    main()
