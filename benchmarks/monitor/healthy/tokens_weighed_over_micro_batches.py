"""Summaries of very different lengths, accumulated: losses are added up and divided by the tokens of the whole step."""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

VOCABULARY, PAD = 26, 0


class Copier(nn.Module):
    """Reads a text and writes it again."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, source, target):
        _, state = self.encoder(self.embed(source))
        return self.out(self.decoder(self.embed(target), state)[0])


def texts(count, longest):
    rows = [torch.randint(2, VOCABULARY, (int(length),)) for length in torch.randint(2, longest, (count,))]
    started = [torch.cat([torch.tensor([1]), row]) for row in rows]
    return pad_sequence(rows, True, PAD), pad_sequence(started, True, PAD)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Copier(args.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for step in range(args.steps):
        group = [texts(2, 30) for _ in range(3)]
        tokens = sum(int((target[:, 1:] != PAD).sum()) for _, target in group)
        total = 0.0
        for source, target in group:
            scores = model(source, target[:, :-1])
            loss = F.cross_entropy(scores.transpose(1, 2), target[:, 1:], ignore_index=PAD, reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 6 == 0:
            print(f"step {step}: {total:.4f} over {tokens} tokens")


if __name__ == "__main__":
    main()
