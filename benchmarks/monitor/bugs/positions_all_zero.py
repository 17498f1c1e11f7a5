"""A transformer looks up its positions with zeros in place of the numbers from zero on: all get one and the same."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.zeros_like.html
# first effect: step 0
# names: positions, embedding
# family: other
# detectable: yes a table with a row for each position is read at one and the same row at all of them

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, length, width, fixed):
        super().__init__()
        self.fixed = fixed
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        length = tokens.size(1)
        at = torch.arange(length) if self.fixed else torch.zeros(length, dtype=torch.long)
        return self.head(self.layers(self.tokens(tokens) + self.positions(at)).mean(1))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

vocabulary, length, batch = 30, 24, 16
model = Model(vocabulary, 32, 32, args.fixed)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(args.steps):
    text = torch.randint(vocabulary, (batch, length))
    labels = (text[:, : length // 2].sum(1) > text[:, length // 2 :].sum(1)).long()
    loss = F.cross_entropy(model(text), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.3f}")
