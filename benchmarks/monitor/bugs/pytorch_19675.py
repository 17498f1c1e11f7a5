"""A bidirectional LSTM whose last hidden states, which lie directions first, are viewed as one line for each sample."""
# source: https://github.com/pytorch/pytorch/issues/19675
# first effect: step 0
# names: model.drop, view
# family: data
# detectable: yes a sample's line of features holds the states of other samples

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.embedding = nn.Embedding(80, 24)
        self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(48, 3)

    def forward(self, tokens):
        _, (hidden, _) = self.lstm(self.embedding(tokens))
        if self.fixed:
            hidden = hidden.transpose(0, 1)
        return self.head(self.drop(hidden.reshape(len(tokens), -1)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    tokens = torch.randint(0, 80, (300, 12))
    loader = DataLoader(TensorDataset(tokens, tokens[:, -1] % 3), batch_size=30, shuffle=True)
    model = Classifier(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(max(1, args.steps // len(loader))):
        for given, wanted in loader:
            loss = nn.functional.cross_entropy(model(given), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
