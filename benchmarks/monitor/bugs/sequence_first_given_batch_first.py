"""An LSTM without `batch_first` is given batches first: it runs along the samples of a batch as if they were time."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
# first effect: step 0
# names: lstm
# family: data
# detectable: yes the dimension that the module takes for the batch is not the one that the loader's batches have

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.lstm = nn.LSTM(4, 24, num_layers=1, batch_first=fixed)
        self.fc = nn.Linear(24, 3)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(256, 12, 4)
    y = x.sum(1)[:, :3].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = Reader(args.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.steps // 8):
        model.train()
        for features, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(features), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
