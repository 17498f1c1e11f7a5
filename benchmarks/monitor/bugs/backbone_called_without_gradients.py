"""The loss is made by hand of the parts of a model, and the encoder's part is called under no_grad."""
# source: https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
# first effect: step 0
# names: reader.encoder, encoder.embed.weight, encoder.rnn.weight_ih_l0
# family: gradients
# detectable: yes the optimizer holds a part that runs in training mode, with dropout, and never with gradients

import argparse
import contextlib

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.dropout = nn.Dropout(0.1)
        self.rnn = nn.GRU(16, 24, batch_first=True)

    def forward(self, words):
        return self.rnn(self.dropout(self.embed(words)))[0]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.score = nn.Linear(24, 2)

    def forward(self, words):
        return self.score(self.encoder(words).mean(1))


def margin_loss(reader, words, labels, fixed):
    """A loss of its own that pools the encoder's states over the words that are no filler."""
    with contextlib.nullcontext() if fixed else torch.no_grad():
        states = reader.encoder(words)
    real = (words > 0).unsqueeze(-1)
    scores = reader.score((states * real).sum(1) / real.sum(1).clamp(min=1))
    return nn.functional.multi_margin_loss(scores, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    reader = Reader().train()
    optimizer = torch.optim.AdamW(reader.parameters(), lr=3e-3)
    for step in range(args.steps):
        words = torch.randint(0, 30, (24, 10))
        labels = (words[:, :5].sum(1) > words[:, 5:].sum(1)).long()
        loss = margin_loss(reader, words, labels, args.fixed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
