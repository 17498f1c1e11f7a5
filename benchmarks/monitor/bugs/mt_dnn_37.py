"""Names are compared whole with a list of their parts, so that nothing is left out of the weight decay."""
# source: https://github.com/namisan/mt-dnn/pull/37
# first effect: step 0
# names: bias, LayerNorm
# family: optimizer
# detectable: no decaying all parameters is what an optimizer does unless it is told otherwise

import argparse

import torch
from torch import nn
from torch.nn import functional as F

NO_DECAY = ("bias", "norm.weight")


def groups(model, fixed):
    def plain(name):
        return any(part in name for part in NO_DECAY) if fixed else name in NO_DECAY

    named = list(model.named_parameters())
    found = [{"params": [one for name, one in named if not plain(name)], "weight_decay": 0.1}]
    rest = [one for name, one in named if plain(name)]
    return [*found, {"params": rest, "weight_decay": 0.0}] if rest else found


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        return self.norm(x + torch.relu(self.linear(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.EmbeddingBag(50, 24), Block(), Block(), nn.Linear(24, 3))
    optimizer = torch.optim.AdamW(groups(model, args.fixed), lr=3e-3)
    for step in range(args.steps):
        words = torch.randint(0, 50, (32, 6))
        loss = F.cross_entropy(model(words), words.sum(1) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
