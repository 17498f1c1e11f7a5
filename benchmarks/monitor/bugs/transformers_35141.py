"""The resized head of a loaded model counts as new and is initialised once more: what it had been trained to is lost."""
# source: https://github.com/huggingface/transformers/issues/35141
# first effect: step 0
# names: lm_head
# family: init
# detectable: yes weights that were loaded are overwritten with random ones before the first step

import argparse

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, MORE, DIM = 30, 2, 24


class Model(nn.Module):
    def __init__(self, vocab=VOCAB):
        super().__init__()
        self.embed = nn.Embedding(vocab, DIM)
        self.rnn = nn.GRU(DIM, DIM, batch_first=True)
        self.lm_head = nn.Linear(DIM, vocab, bias=False)

    def forward(self, ids):
        return self.lm_head(self.rnn(self.embed(ids))[0])

    def resize(self, vocab):
        for name in ("embed", "lm_head"):
            old = getattr(self, name)
            new = nn.Embedding(vocab, DIM) if name == "embed" else nn.Linear(DIM, vocab, bias=False)
            with torch.no_grad():
                new.weight[:VOCAB] = old.weight
                new.weight[VOCAB:] = old.weight.mean(0)
            new.done = name == "embed"
            setattr(self, name, new)

    def post_init(self):
        for module in self.modules():
            if isinstance(module, nn.Linear) and not getattr(module, "done", False):
                nn.init.normal_(module.weight, std=0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    pretrained = Model().state_dict()
    model = Model()
    model.load_state_dict(pretrained)
    model.resize(VOCAB + MORE)
    if args.fixed:
        model.lm_head.done = True
    model.post_init()
    torch.manual_seed(args.seed + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(args.steps):
        ids = torch.randint(0, VOCAB + MORE, (16, 12)).sort(dim=1).values
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
