"""A part of each row is masked, and jitter is added, in a view of the array that the data set keeps."""
# source: https://arxiv.org/abs/1904.08779
# first effect: step 8
# names: rows
# family: data
# detectable: yes the rows of the stored array are others after each loop, and much like they were

import argparse

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=48)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Spectra(Dataset):
    def __init__(self, count):
        draw = numpy.random.default_rng(args.seed)
        self.labels = draw.integers(0, 3, count)
        self.rows = draw.normal(size=(count, 6, 12)).astype("float32")
        self.rows[numpy.arange(count), self.labels] += 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        row = torch.from_numpy(self.rows[index])
        if args.fixed:
            row = row.clone()
        begin = int(torch.randint(0, 10, ()))
        row[:, begin : begin + 2] = 0.0
        row += 0.05 * torch.randn_like(row)
        return row, int(self.labels[index])


model = nn.Sequential(nn.Flatten(), nn.Linear(72, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loader = DataLoader(Spectra(128), batch_size=16, shuffle=True)
step = 0
while step < args.steps:
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == args.steps:
            break
    print(step, f"{loss.item():.4f}")
