"""Finding a span in a text: start and end scores of one layer, normalised over the positions, padding masked out."""

import argparse

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.spans = nn.Linear(2 * width, 2)

    def forward(self, ids):
        scores = self.spans(self.rnn(self.embed(ids))[0])
        scores = scores.masked_fill((ids == 0)[:, :, None], -1e4)
        return torch.log_softmax(scores, dim=1)


def batch(count, length):
    ids = torch.randint(5, 60, (count, length))
    start = torch.randint(0, length - 6, (count,))
    end = start + torch.randint(1, 4, (count,))
    rows = torch.arange(count)
    ids[rows, start], ids[rows, end] = 1, 2
    ids[:, -2:] = 0
    return ids, start, end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    reader = Reader(60, args.size)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.steps)
    for step in range(args.steps):
        ids, start, end = batch(32, 18)
        logs = reader(ids)
        loss = nn.functional.nll_loss(logs[:, :, 0], start) + nn.functional.nll_loss(logs[:, :, 1], end)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 10 == 9:
            exact = ((logs[:, :, 0].argmax(1) == start) & (logs[:, :, 1].argmax(1) == end)).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} exact {exact:.2f}")


if __name__ == "__main__":
    main()
