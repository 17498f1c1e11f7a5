"""A language model whose targets are turned to positions first, while its scores lie samples first."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
# first effect: step 0
# names: targets, cross_entropy
# family: loss
# detectable: yes the targets are the next tokens of the inputs, in another order than the scores of these lie

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        return self.head(self.layers(self.embedding(tokens), hidden, is_causal=True))


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)

vocabulary, length, batch = 40, 24, 16
follows = torch.randperm(vocabulary)
model = Model(vocabulary, 32)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(args.steps):
    rows = [torch.randint(vocabulary, (batch,))]
    for _ in range(length):
        noise = torch.rand(batch) < 0.1
        rows.append(torch.where(noise, torch.randint(vocabulary, (batch,)), follows[rows[-1]]))
    text = torch.stack(rows, 1)
    inputs, targets = text[:, :-1], text[:, 1:]
    scores = model(inputs)
    if not args.fixed:
        targets = targets.transpose(0, 1)
    loss = F.cross_entropy(scores.reshape(-1, vocabulary), targets.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.3f}")
