"""A forecast whose windows reach one step too far: the last value of each is the one to be foretold."""
# source: https://github.com/sktime/pytorch-forecasting/issues/182
# first effect: step 0
# names: loader0
# family: data
# detectable: yes the targets stand in the windows

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, length, fixed):
        self.series, self.length, self.early = series, length, 0 if fixed else 1

    def __len__(self):
        return len(self.series) - self.length - 1

    def __getitem__(self, index):
        begin, end = index + self.early, index + self.length + self.early
        return self.series[begin:end].unsqueeze(-1), self.series[index + self.length]


class Forecast(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.both = nn.Linear(width, 2)

    def forward(self, window):
        states, _ = self.lstm(window)
        mean, deviation = self.both(states[:, -1]).unbind(-1)
        return mean, nn.functional.softplus(deviation) + 1e-3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    time = torch.arange(0, 700.0)
    series = torch.sin(time / 11) + 0.3 * torch.sin(time / 3.7) + 0.1 * torch.randn(700)
    loader = DataLoader(Windows(series, 24, args.fixed), batch_size=32, shuffle=True)
    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step = 0
    while step < args.steps:
        for window, wanted in loader:
            mean, deviation = model(window)
            loss = nn.functional.gaussian_nll_loss(mean, wanted, deviation**2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            step += 1
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
