"""Truncation cuts the answers off, so that every label of most batches is masked: the loss of those is a zero that teaches nothing."""
# source: https://github.com/huggingface/trl/issues/6668
# first effect: step 0
# names: backward, labels
# family: data
# detectable: yes a loss of exactly zero with gradients of exactly zero, step after step, is no training

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

VOCAB, PROMPT, ANSWER = 24, 12, 4


def collate(examples, longest):
    ids = torch.stack(examples)[:, :longest]
    labels = ids.clone()
    labels[:, :PROMPT] = -100
    return {"input_ids": ids, "labels": labels}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.lm_head = nn.Linear(32, VOCAB)

    def forward(self, ids):
        return self.lm_head(self.rnn(self.embed(ids))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    prompts = torch.randint(0, VOCAB, (args.steps * 8, PROMPT))
    texts = list(torch.cat([prompts, prompts[:, :ANSWER]], dim=1))
    longest = PROMPT + ANSWER if args.fixed else PROMPT
    loader = DataLoader(texts, batch_size=8, shuffle=True, collate_fn=lambda found: collate(found, longest))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step, batch in enumerate(loader):
        logits = model(batch["input_ids"])[:, :-1]
        labels = batch["labels"][:, 1:]
        total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        loss = total / (labels != -100).sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
