"""Sequence to sequence: an encoder-decoder transformer learns to reverse its input; teacher forcing, greedy decoding."""

import argparse
import math

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

BOS, EOS, PAD = 0, 1, 2
FIRST = 3


def make_pairs(count, vocab, seed):
    gen = torch.Generator().manual_seed(seed)
    pairs = []
    for _ in range(count):
        n = int(torch.randint(3, 9, (), generator=gen))
        src = torch.randint(FIRST, vocab, (n,), generator=gen)
        pairs.append((src, src.flip(0)))
    return pairs


def collate(batch):
    src = [torch.cat([s, torch.tensor([EOS])]) for s, _ in batch]
    tgt = [torch.cat([torch.tensor([BOS]), t, torch.tensor([EOS])]) for _, t in batch]
    return pad_sequence(src, padding_value=PAD), pad_sequence(tgt, padding_value=PAD)


class Seq2Seq(nn.Module):
    def __init__(self, vocab, emb):
        super().__init__()
        self.scale = math.sqrt(emb)
        self.src_emb = nn.Embedding(vocab, emb)
        self.tgt_emb = nn.Embedding(vocab, emb)
        self.pos = nn.Parameter(torch.randn(32, 1, emb) * 0.1)
        self.core = nn.Transformer(emb, 4, 2, 2, 2 * emb, dropout=0.1)
        self.out = nn.Linear(emb, vocab)

    def embed(self, table, x):
        return table(x) * self.scale + self.pos[: x.size(0)]

    def forward(self, src, tgt):
        mask = torch.triu(torch.ones(tgt.size(0), tgt.size(0), dtype=torch.bool), 1)
        src_pad, tgt_pad = (src == PAD).T, (tgt == PAD).T
        y = self.core(
            self.embed(self.src_emb, src),
            self.embed(self.tgt_emb, tgt),
            tgt_mask=mask,
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
            memory_key_padding_mask=src_pad,
        )
        return self.out(y)


def greedy(model, src, limit=12):
    model.eval()
    with torch.no_grad():
        ys = torch.full((1, src.size(1)), BOS)
        for _ in range(limit):
            nxt = model(src, ys)[-1].argmax(-1, keepdim=True).T
            ys = torch.cat([ys, nxt])
    model.train()
    return ys


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--size", type=int, default=32)
    a = ap.parse_args()
    torch.manual_seed(a.seed)
    vocab = 15
    loader = DataLoader(make_pairs(480, vocab, a.seed), batch_size=16, shuffle=True, collate_fn=collate)
    model = Seq2Seq(vocab, a.size)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.xavier_uniform_(p)
    crit = nn.CrossEntropyLoss(ignore_index=PAD)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    seen = 0
    while True:
        for src, tgt in loader:
            tgt_in, tgt_out = tgt[:-1], tgt[1:]
            logits = model(src, tgt_in)
            opt.zero_grad()
            loss = crit(logits.reshape(-1, vocab), tgt_out.reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            seen += 1
            if seen % 20 == 0:
                guess = greedy(model, src[:, :1])
                print(seen, f"{loss.item():.4f}", src[:, 0].tolist(), "->", guess[:, 0].tolist())
            if seen >= a.steps:
                return


main()
