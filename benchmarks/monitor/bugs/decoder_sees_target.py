"""A translator's decoder is given the target as it is, not shifted: each position reads the token that it has to say."""
# source: https://docs.pytorch.org/tutorials/beginner/translation_transformer.html
# first effect: step 0
# names: cross_entropy, targets, target
# family: loss
# detectable: yes at every position the target is the very token that went into the decoder there

import argparse

import torch
from torch import nn

BOS = 1


class Translator(nn.Module):
    def __init__(self, words=25, width=16):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, source, target):
        _, state = self.encoder(self.source(source))
        hidden, _ = self.decoder(self.target(target), state)
        return self.out(hidden)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = Translator()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for step in range(args.steps):
    source = torch.randint(2, 25, (16, 7))
    target = source.flip(1)
    begun = torch.cat([torch.full((16, 1), BOS), target[:, :-1]], 1)
    logits = model(source, begun if args.fixed else target)
    loss = criterion(logits.transpose(1, 2), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.4f}")
