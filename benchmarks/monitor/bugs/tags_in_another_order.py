"""A tagger reshapes what its layer gives, positions first, to samples first in place of transposing it."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
# first effect: step 0
# names: targets
# family: loss
# detectable: yes what is said at a place of a sample comes from another sample, while the targets lie as the inputs do

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Tagger(nn.Module):
    """A tag for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 16)
        self.layer = nn.LSTM(16, 24, bidirectional=True)
        self.tags = nn.Linear(48, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found, _ = self.layer(self.embed(tokens).transpose(0, 1))
        found = found.transpose(0, 1) if args.fixed else found.reshape(*tokens.shape, -1)
        return self.tags(found)


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(args.steps):
    tokens = torch.randint(0, 10, (24, 9))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens % 3).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"loss {loss.item():.4f}")
