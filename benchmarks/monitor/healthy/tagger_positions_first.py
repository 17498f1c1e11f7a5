"""Tagging with a bidirectional LSTM and attention over its states, all with positions first: pad_sequence as it comes."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def sentences(count, generator):
    lengths = torch.randint(5, 12, (count,), generator=generator)
    return [torch.randint(1, 30, (length,), generator=generator) for length in lengths.tolist()]


def collate(batch):
    words = pad_sequence(batch)
    tags = pad_sequence([(sentence + sentence.roll(1)) % 4 for sentence in batch], padding_value=-100)
    return words, tags


class Tagger(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.words = nn.Embedding(30, size, padding_idx=0)
        self.lstm = nn.LSTM(size, size, bidirectional=True)
        self.attention = nn.MultiheadAttention(2 * size, 2)
        self.norm, self.tags = nn.LayerNorm(2 * size), nn.Linear(2 * size, 4)

    def forward(self, words):
        states, _ = self.lstm(self.words(words))
        mixed, _ = self.attention(states, states, states, key_padding_mask=(words == 0).T, need_weights=False)
        return self.tags(self.norm(states + mixed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--size", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = sentences(180, torch.Generator().manual_seed(args.seed))
    loader = DataLoader(data[:144], batch_size=12, shuffle=True, collate_fn=collate)
    held_out = DataLoader(data[144:], batch_size=18, collate_fn=collate)
    model = Tagger(args.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    step = 0
    while step < args.steps:
        model.train()
        for words, tags in loader:
            loss = criterion(model(words).flatten(0, 1), tags.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
        model.eval()
        with torch.no_grad():
            losses = [criterion(model(words).flatten(0, 1), tags.flatten()).item() for words, tags in held_out]
        print(f"step {step}: loss {loss.item():.4f}, held out {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    main()
