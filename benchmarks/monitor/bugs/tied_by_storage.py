"""Head and embedding are tied by `.data`: two parameters over one memory, and the optimizer updates it twice."""
# source: https://docs.pytorch.org/docs/stable/notes/autograd.html
# first effect: step 0
# names: head.weight, embed.weight
# family: init
# detectable: yes two parameters of one optimizer share their memory, so that each step moves it twice

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocabulary, width, fixed):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        if fixed:
            self.head.weight = self.embed.weight
        else:
            self.head.weight.data = self.embed.weight.data

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens)))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

model = Bigram(24, 16, args.fixed)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
follows = torch.randperm(24)
for step in range(args.steps):
    tokens = [torch.randint(24, (16,))]
    for _ in range(8):
        tokens.append(follows[tokens[-1]])
    text = torch.stack(tokens, 1)
    logits = model(text[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 24), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
