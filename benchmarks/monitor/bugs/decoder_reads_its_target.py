"""A decoder is fed the token that it is to tell: the target is not moved by one."""
# source: https://github.com/KempnerInstitute/KempnerForge/issues/154
# first effect: step 0
# names: labels, targets, cross_entropy
# family: data
# detectable: yes the targets are what a recurrent layer that goes forward reads at the same positions

import argparse
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, SOS, EOS = 0, 1, 2


class ReverseDataset(Dataset):
    def __init__(self, n, vocab, seed):
        rng = random.Random(seed)
        self.rows = [[rng.randrange(3, vocab) for _ in range(rng.randint(5, 12))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return torch.tensor([*row, EOS]), torch.tensor([SOS, *row[::-1], EOS])


def collate(batch):
    src, trg = zip(*batch, strict=True)
    return pad_sequence(src, batch_first=True, padding_value=PAD), pad_sequence(
        trg, batch_first=True, padding_value=PAD
    )


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, batch_first=True)

    def forward(self, src):
        return self.rnn(self.embedding(src))[1]


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.out = nn.Linear(hid, vocab)

    def forward(self, tokens, hidden):
        h, hidden = self.rnn(self.embedding(tokens), hidden)
        return self.out(h), hidden


class Seq2Seq(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.encoder = Encoder(vocab, 32, 64)
        self.decoder = Decoder(vocab, 32, 64)

    def forward(self, src, trg_in):
        return self.decoder(trg_in, self.encoder(src))[0]


def run_epoch(model, loader, criterion, optimizer, fixed):
    model.train()
    total = 0
    for src, trg in loader:
        optimizer.zero_grad()
        trg_in = trg[:, :-1] if fixed else trg[:, 1:]
        logits = model(src, trg_in)
        loss = criterion(logits.reshape(-1, logits.size(-1)), trg[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--steps", type=int, default=40)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(ReverseDataset(480, 40, 3), batch_size=24, shuffle=True, collate_fn=collate)
    model = Seq2Seq(40)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    for epoch in range(max(1, args.steps // len(loader))):
        print(epoch, run_epoch(model, loader, criterion, optimizer, args.fixed))


if __name__ == "__main__":
    main()
