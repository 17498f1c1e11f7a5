"""The class token is a plain tensor with `requires_grad`, not a parameter: it gets gradients and nobody ever steps it."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html
# first effect: step 0
# names: leaf, token
# family: optimizer
# detectable: yes a leaf keeps gathering gradients in every pass and is neither stepped nor cleared

import argparse

import torch
from torch import nn


class SmallViT(nn.Module):
    def __init__(self, fixed, width=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        token = torch.randn(1, 1, width) * 0.02
        self.token = nn.Parameter(token) if fixed else token.requires_grad_()
        self.place = nn.Parameter(torch.randn(1, 10, width) * 0.02)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        return self.head(self.layer(x)[:, 0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = SmallViT(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        labels = torch.randint(3, (16,))
        images = torch.rand(16, 3, 12, 12)
        images[torch.arange(16), labels] += 0.5
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
