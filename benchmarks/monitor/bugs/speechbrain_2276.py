"""Positions are multiplied by the wrong side of the mask: every real token stands at position zero."""
# source: https://github.com/speechbrain/speechbrain/issues/2276
# first effect: step 0
# names: positions
# family: data
# detectable: yes a table of positions is read at one row for all tokens that count, and the others never get a gradient

import argparse

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, LENGTH = 20, 12


class Tagger(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.embed = nn.Embedding(VOCAB, 32, padding_idx=0)
        self.positions = nn.Embedding(LENGTH + 1, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, ids):
        padded = ids == 0
        keep = ~padded if self.fixed else padded
        places = torch.arange(1, ids.shape[1] + 1) * keep
        hidden = self.embed(ids) + self.positions(places)
        return self.head(self.block(hidden, src_key_padding_mask=padded))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Tagger(args.fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(args.steps):
        ids = torch.randint(1, VOCAB, (16, LENGTH))
        lengths = torch.randint(LENGTH // 2, LENGTH, (16, 1))
        ids = ids.masked_fill(torch.arange(LENGTH) >= lengths, 0)
        target = ids.roll(1, dims=1)
        target[:, 0] = ids[:, 0]
        loss = F.cross_entropy(model(ids).flatten(0, 1), target.masked_fill(ids == 0, -100).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
