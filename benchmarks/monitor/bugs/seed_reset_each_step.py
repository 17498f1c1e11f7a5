"""The global seed is set inside the loop, so every step has the same noise, the same timesteps and the same dropout masks."""
# source: https://github.com/huggingface/diffusers/issues/175
# first effect: step 1
# names: manual_seed, Dropout
# family: init
# detectable: yes the random state at the start of every step is the same

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Eps(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(50, 64)
        self.inp = nn.Linear(4, 64)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(64, 4)

    def forward(self, x, t):
        return self.out(self.drop(F.silu(self.inp(x) + self.time(t))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Eps()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    alphas = torch.linspace(0.99, 0.02, 50)
    data = torch.randn(40 * 64, 4) * torch.tensor([2.0, 1.0, 0.5, 0.1])
    torch.manual_seed(args.seed)
    for step in range(args.steps):
        if not args.fixed:
            torch.manual_seed(args.seed)
        clean = data[(64 * step) % 2560 :][:64]
        noise = torch.randn_like(clean)
        t = torch.randint(0, 50, (64,))
        a = alphas[t][:, None]
        loss = F.mse_loss(model(a.sqrt() * clean + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
