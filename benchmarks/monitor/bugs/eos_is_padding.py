"""Padding uses the end token, and the collator ignores padding in the labels: the model is never taught to stop."""
# source: https://github.com/huggingface/trl/issues/976
# first effect: step 0
# names: cross_entropy, labels
# family: loss
# detectable: no that one token is never a target is normal for many tokens; only the tokenizer's configuration shows it

import argparse

import torch
import torch.nn.functional as F
from torch import nn

EOS = 1


def collate(sequences, pad, fixed):
    longest = max(map(len, sequences))
    ids = torch.full((len(sequences), longest), pad)
    for row, seq in enumerate(sequences):
        ids[row, : len(seq)] = torch.tensor(seq)
    labels = ids.clone()
    if fixed:
        lengths = torch.tensor([len(s) for s in sequences])
        labels[torch.arange(longest)[None] >= lengths[:, None]] = -100
    else:
        labels[labels == pad] = -100
    return ids, labels


class Decoder(nn.Module):
    def __init__(self, vocab=20, dim=32):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.lm_head(self.gru(self.wte(ids))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        counts = torch.randint(3, 10, (32,)).tolist()
        ids, labels = collate([[*range(2, 2 + n), EOS] for n in counts], EOS, args.fixed)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        probability = model(torch.arange(2, 13)[None]).softmax(-1)[0, -1, EOS]
    print(f"probability of stopping after the longest sequence {probability.item():.3f}")


main()
