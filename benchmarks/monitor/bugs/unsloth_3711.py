"""Embedding and head share their weights until an adapter makes a copy of each to train: two that drift apart."""
# source: https://github.com/unslothai/unsloth/pull/3711
# first effect: step 0
# names: embed_tokens, lm_head
# family: init
# detectable: yes parameters that were one when the model was made are trained as two

import argparse
import copy

import torch
from torch import nn


class Kept(nn.Module):
    """A module that is frozen, and a copy of it that is trained."""

    def __init__(self, module):
        super().__init__()
        self.original = module.requires_grad_(False)
        self.copied = copy.deepcopy(module).requires_grad_(True)

    def forward(self, x):
        return self.copied(x)


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(50, 32)
        self.mixer = nn.GRU(32, 32, batch_first=True)
        self.lm_head = nn.Linear(32, 50, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens):
        return self.lm_head(self.mixer(self.embed_tokens(tokens))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Speaker()
    text = torch.randint(0, 50, (2000,))
    with torch.no_grad():
        before = nn.functional.cross_entropy(model(text[None, :200])[0, :-1], text[1:200])
    print(f"before {before.item():.4f}")
    model.mixer.requires_grad_(False)
    model.embed_tokens, model.lm_head = Kept(model.embed_tokens), Kept(model.lm_head)
    if args.fixed:
        model.lm_head.copied.weight = model.embed_tokens.copied.weight
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for step in range(args.steps):
        starts = torch.randint(0, 1900, (8, 1))
        lines = text[starts + torch.arange(21)]
        loss = nn.functional.cross_entropy(model(lines[:, :-1]).flatten(0, 1), lines[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
