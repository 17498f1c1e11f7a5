"""Bidirectional LSTM on packed sequences of different lengths, binary classification, ReduceLROnPlateau on validation."""

import argparse
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, random_split

GOOD, BAD = range(2, 12), range(12, 22)


def reviews(n, rng):
    rows = []
    for _ in range(n):
        label = rng.randint(0, 1)
        words = [
            rng.choice(GOOD if label else BAD) if rng.random() < 0.4 else rng.randrange(22, 60)
            for _ in range(rng.randint(4, 18))
        ]
        rows.append((torch.tensor(words), float(label)))
    return rows


def collate_batch(batch):
    texts, labels = zip(*batch)
    lengths = torch.tensor([len(t) for t in texts])
    return pad_sequence(texts, batch_first=True), lengths, torch.tensor(labels)


class SentimentRNN(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(hidden_dim * 2, 1)

    def forward(self, text, lengths):
        packed = pack_padded_sequence(
            self.dropout(self.embedding(text)), lengths, batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        hidden = self.dropout(torch.cat((hidden[-2], hidden[-1]), dim=1))
        return self.fc(hidden).squeeze(1)


def evaluate(model, iterator, criterion):
    epoch_loss = epoch_acc = 0
    model.eval()
    with torch.no_grad():
        for text, lengths, label in iterator:
            predictions = model(text, lengths)
            epoch_loss += criterion(predictions, label).item()
            epoch_acc += ((predictions > 0) == label.bool()).float().mean().item()
    return epoch_loss / len(iterator), epoch_acc / len(iterator)


def train(model, iterator, optimizer, criterion, budget):
    epoch_loss, batches = 0, 0
    model.train()
    for text, lengths, label in iterator:
        if batches == budget:
            break
        optimizer.zero_grad()
        loss = criterion(model(text, lengths), label)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
        batches += 1
    return epoch_loss / batches, batches


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=1234)
    ap.add_argument("--steps", type=int, default=56)
    ap.add_argument("--size", type=int, default=24)
    args = ap.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True

    data = reviews(400, random.Random(args.seed))
    train_data, valid_data = random_split(data, [320, 80], generator=torch.Generator().manual_seed(args.seed))
    train_iter = DataLoader(train_data, batch_size=24, shuffle=True, collate_fn=collate_batch)
    valid_iter = DataLoader(valid_data, batch_size=40, collate_fn=collate_batch)

    model = SentimentRNN(60, 16, args.size)
    print(f"The model has {sum(p.numel() for p in model.parameters() if p.requires_grad):,} trainable parameters")
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=0)
    criterion = nn.BCEWithLogitsLoss()

    left = args.steps
    while left > 0:
        train_loss, used = train(model, train_iter, optimizer, criterion, left)
        left -= used
        valid_loss, valid_acc = evaluate(model, valid_iter, criterion)
        scheduler.step(valid_loss)
        print(
            f"Train {train_loss:.3f} | Val {valid_loss:.3f} | Acc {valid_acc * 100:.2f}% | lr {optimizer.param_groups[0]['lr']:.5f}"
        )
