"""Values are multiplied from the left with the weights of an attention: each token is sent what others look for in it."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
# first effect: step 0
# names: attention, softmax
# family: other
# detectable: yes the weights of an attention sum to one over another axis than that over which values are added up

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)

KINDS, LENGTH, WIDTH = 20, 12, 24


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(KINDS, WIDTH)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.ask = nn.Linear(WIDTH, 3 * WIDTH)
        self.say = nn.Linear(WIDTH, KINDS)

    def forward(self, ids):
        hidden = self.words(ids) + self.places
        query, key, value = self.ask(hidden).chunk(3, dim=-1)
        weights = (query @ key.transpose(1, 2) / WIDTH**0.5).softmax(dim=-1)
        if args.fixed:
            mixed = weights @ value
        else:
            mixed = (value.transpose(1, 2) @ weights).transpose(1, 2)
        return self.say(hidden + mixed)


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(args.steps):
    ids = torch.randint(0, KINDS, (16, LENGTH))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step, f"loss {loss.item():.4f}")
