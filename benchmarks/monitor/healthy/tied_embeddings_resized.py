"""A language model with tied embedding and head: new tokens are added in the middle, tied again, and the optimizer made anew."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def resize(self, vocabulary):
        old = self.embed.weight
        self.embed = nn.Embedding(vocabulary, old.shape[1])
        with torch.no_grad():
            self.embed.weight[: len(old)] = old
            self.embed.weight[len(old) :] = old.mean(0)
        self.head = nn.Linear(old.shape[1], vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.body(self.embed(ids))[0])


def train(model, vocabulary, steps, word):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(steps):
        ids = (torch.randint(vocabulary, (16, 1)) + 3 * torch.arange(13)) % vocabulary
        loss = F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"{word} {step} loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Model(40, args.size)
    train(model, 40, args.steps // 2, "base")
    kept = model.state_dict()
    model.resize(46)
    train(model, 46, args.steps // 2, "extended")
    again = Model(46, args.size)
    again.load_state_dict(model.state_dict())
    print(f"{len(kept)} tensors, tied {again.head.weight is again.embed.weight}")


if __name__ == "__main__":
    main()
