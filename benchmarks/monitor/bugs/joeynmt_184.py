"""A translator that is validated in the middle of an epoch and trains on in evaluation mode until the next one."""
# source: https://github.com/joeynmt/joeynmt/issues/184
# first effect: step 12
# names: eval, dropout, Seq2Seq
# family: mode
# detectable: yes steps are made with dropout switched off, while earlier ones had it on

import argparse
import random

import torch
from torch import nn

PAD, BOS, WORDS = 0, 1, 20


class Seq2Seq(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.src_embed, self.trg_embed = nn.Embedding(WORDS, size, PAD), nn.Embedding(WORDS, size, PAD)
        self.encoder = nn.LSTM(size, size, batch_first=True)
        self.decoder = nn.LSTM(size, size, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.output_layer = nn.Linear(size, WORDS)

    def forward(self, src, trg):
        _, state = self.encoder(self.dropout(self.src_embed(src)))
        hidden, _ = self.decoder(self.dropout(self.trg_embed(trg)), state)
        return self.output_layer(self.dropout(hidden))


def sentences(count, seed):
    chance = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [chance.randrange(2, WORDS) for _ in range(chance.randint(3, 6))]
        pairs.append((words, words[::-1]))
    return pairs


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def to_batch(pairs):
    src, trg = zip(*pairs, strict=True)
    trg = padded([[BOS, *row] for row in trg])
    return padded(list(src)), trg[:, :-1], trg[:, 1:]


class TrainManager:
    def __init__(self, model, fixed, max_updates):
        self.model, self.fixed, self.max_updates, self.updates = model, fixed, max_updates, 0
        self.loss = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def validate(self, pairs):
        self.model.eval()
        with torch.no_grad():
            src, trg, gold = to_batch(pairs)
            total = self.loss(self.model(src, trg).flatten(0, 1), gold.flatten()).item()
        if self.fixed:
            self.model.train()
        return total / (gold != PAD).sum().item()

    def train_and_validate(self, train, dev, chance):
        while self.updates < self.max_updates:
            self.model.train()
            chance.shuffle(train)
            for start in range(0, len(train), 20):
                src, trg, gold = to_batch(train[start : start + 20])
                loss = self.loss(self.model(src, trg).flatten(0, 1), gold.flatten()) / len(src)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.updates += 1
                if self.updates % 12 == 0:
                    print(f"{self.updates}: {loss.item():.3f}, validation {self.validate(dev):.3f}")
                if self.updates == self.max_updates:
                    return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    manager = TrainManager(Seq2Seq(), args.fixed, args.steps)
    manager.train_and_validate(sentences(400, args.seed), sentences(40, args.seed + 1), random.Random(args.seed))


if __name__ == "__main__":
    main()
