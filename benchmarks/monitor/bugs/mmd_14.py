"""The evaluation after each epoch switches the model to evaluation mode, and nobody switches it back: dropout ends with the first epoch."""
# source: https://github.com/shubhamagarwal92/mmd/issues/14
# first effect: step 8
# names: model, dropout, eval
# family: mode
# detectable: yes a model that was trained in training mode goes on to be trained in evaluation mode

import argparse

import torch
from torch import nn


class Dialogue(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 24)
        self.context = nn.LSTM(24, 24, num_layers=2, dropout=0.3, batch_first=True)
        self.answer = nn.Sequential(nn.Dropout(0.2), nn.Linear(24, 40))

    def forward(self, ids):
        return self.answer(self.context(self.words(ids))[0])


def score(model, ids):
    return nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def evaluate(model, held):
    model.eval()
    with torch.no_grad():
        return score(model, held).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    talk = (torch.randint(0, 40, (160, 1)) + 3 * torch.arange(12)) % 40
    model = Dialogue()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for epoch in range(args.steps // 8):
        if args.fixed:
            model.train()
        for part in torch.randperm(128).view(8, 16):
            loss = score(model, talk[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f} held out {evaluate(model, talk[128:]):.4f}")


if __name__ == "__main__":
    main()
