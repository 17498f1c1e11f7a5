"""The validation part is cut off before the shuffle, the training part after it: the two overlap."""
# source: https://github.com/marin-community/marin/pull/2700
# first effect: step 0
# names: loader0, loader1
# family: data
# detectable: yes some samples of the validation loader are among those of the training loader

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class Bigram(nn.Module):
    def __init__(self, vocabulary=40, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.mix = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        return self.out(torch.relu(self.mix(self.embed(ids))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=28)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    sequences = TensorDataset(torch.randint(40, (128, 12)))
    order = torch.randperm(128).tolist()
    if args.fixed:
        held, rest = list(range(16)), [i for i in order if i >= 16]
    else:
        held, rest = list(range(16)), order[16:]
    train = DataLoader(Subset(sequences, rest), batch_size=16, shuffle=True)
    valid = DataLoader(Subset(sequences, held), batch_size=16)
    model = Bigram()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = 0
    while step < args.steps:
        for (ids,) in train:
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        model.eval()
        with torch.no_grad():
            for (ids,) in valid:
                print(f"step {step} held out {F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:]):.4f}")
        model.train()


if __name__ == "__main__":
    main()
