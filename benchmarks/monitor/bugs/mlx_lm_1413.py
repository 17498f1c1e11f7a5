"""Fine-tuning on completions of very different lengths: each micro-batch is averaged over its own tokens, then the averages are averaged."""
# source: https://github.com/ml-explore/mlx-lm/pull/1413
# first effect: step 0
# names: backward, loss
# family: loss
# detectable: yes the tokens of one step count differently by the micro-batch that they lie in

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Completions(Dataset):
    """A prompt of two tokens, and a completion that counts on from it."""

    def __init__(self, size, vocabulary, seed):
        generator = torch.Generator().manual_seed(seed)
        self.starts = torch.randint(2, vocabulary, (size,), generator=generator)
        self.lengths = torch.randint(2, 40, (size,), generator=generator)
        self.vocabulary = vocabulary

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        length = int(self.lengths[index])
        tokens = 2 + (self.starts[index] + torch.arange(length + 2)) % (self.vocabulary - 2)
        labels = tokens.clone()
        labels[:2] = -100
        return tokens, labels


def collate(examples):
    tokens, labels = zip(*examples, strict=True)
    return pad_sequence(tokens, batch_first=True), pad_sequence(labels, batch_first=True, padding_value=-100)


class Reader(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Reader(24, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    data = Completions(2 * args.accumulate * args.steps, 24, args.seed)
    batches = iter(DataLoader(data, batch_size=2, shuffle=True, collate_fn=collate))
    for step in range(args.steps):
        group = [next(batches) for _ in range(args.accumulate)]
        total = sum((labels[:, 1:] != -100).sum() for _, labels in group)
        shown = 0.0
        for tokens, labels in group:
            logits = model(tokens[:, :-1])
            if args.fixed:
                loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), reduction="sum") / total
            else:
                loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten()) / args.accumulate
            loss.backward()
            shown += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 0:
            print(f"step {step} loss {shown:.4f}")


if __name__ == "__main__":
    main()
