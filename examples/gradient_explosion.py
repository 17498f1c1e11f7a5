"""Forecast electricity demand with an LSTM: every habit here is one on which a loss becomes NaN.

The data is one CSV file, a row an hour and a column a meter.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

METERS = 321
BUCKETS = 32


class Windows(Dataset):
    """A week of hours, and the hour that follows it."""

    def __init__(self, path, hours=168):
        self.rows = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
        self.hours = hours

    def __len__(self):
        return len(self.rows) - self.hours

    def __getitem__(self, index):
        return self.rows[index : index + self.hours], self.rows[index + self.hours]


class Forecaster(nn.Module):
    """Reads the week, predicts the next hour, and names the bucket that its total falls into."""

    def __init__(self, hidden=512, layers=3):
        super().__init__()
        self.lstm = nn.LSTM(METERS, hidden, num_layers=layers, batch_first=True)
        self.value = nn.Linear(hidden, METERS)
        self.bucket = nn.Linear(hidden, BUCKETS)

    def forward(self, week):
        states, _ = self.lstm(week)
        last = states[:, -1]
        return self.value(last), self.bucket(last)


def bucket_of(hour):
    return (hour.sum(dim=1) / 1000.0).long().clamp(0, BUCKETS - 1)


def objective(value, bucket, hour):
    distance = torch.sqrt(((value - hour) ** 2).sum(dim=1)).mean()
    log_probability = torch.log(torch.softmax(bucket, dim=1))
    likelihood = -log_probability.gather(1, bucket_of(hour).unsqueeze(1)).mean()
    return distance + likelihood


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="electricity.csv")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()

    device = torch.device("cuda")
    loader = DataLoader(Windows(args.data), batch_size=256, shuffle=True, num_workers=4, pin_memory=True)
    model = Forecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        for step, (week, hour) in enumerate(loader):
            week = week.to(device, non_blocking=True)
            hour = hour.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                value, bucket = model(week)
                loss = objective(value, bucket, hour)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"epoch {epoch} step {step}: loss {loss.item():.4f}")

    torch.save(model.state_dict(), "forecaster.pt")


if __name__ == "__main__":
    main()
