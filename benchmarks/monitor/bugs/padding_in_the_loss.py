"""The labels are a plain copy of the padded inputs: most of the loss is about predicting padding after padding."""
# source: https://github.com/peremartra/optipfair/issues/34
# first effect: step 0
# names: cross_entropy, labels
# family: loss
# detectable: no which token is padding is only known from the tokenizer; the calls are well-formed

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD = 0


def collate(sequences, fixed):
    input_ids = pad_sequence(sequences, batch_first=True, padding_value=PAD)
    labels = input_ids.clone()
    if fixed:
        labels[input_ids == PAD] = -100
    return input_ids, labels


class Student(nn.Module):
    def __init__(self, vocab=30, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, input_ids, labels):
        logits = self.head(self.lstm(self.embed(input_ids))[0])
        loss = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=-100)
        return loss, logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Student()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(args.steps):
        lengths = torch.where(torch.rand(16) < 0.8, 4, 20).tolist()
        starts = torch.randint(0, 29, (16,)).tolist()
        batch = [1 + (s + 3 * torch.arange(n)) % 29 for s, n in zip(starts, lengths, strict=True)]
        input_ids, labels = collate(batch, args.fixed)
        loss, logits = model(input_ids, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            real = input_ids[:, 1:] != PAD
            right = (logits[:, :-1].argmax(-1) == input_ids[:, 1:])[real].float().mean().item()
            print(f"step {step} loss {loss.item():.4f} accuracy on real tokens {right:.3f}")


if __name__ == "__main__":
    main()
