"""The moving average is copied into the model at the end of each epoch but is never updated: every epoch starts again from the first weights."""
# source: https://github.com/MultimediaTechLab/YOLO/issues/97
# first effect: step 8
# names: backbone.0.weight, head.weight, load_state_dict
# family: optimizer
# detectable: yes between two steps somebody other than the optimizer puts the weights of the start back

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8))
        self.head = nn.Linear(64, 2)

    def forward(self, x):
        return self.head(self.backbone(x).flatten(1))


class ExponentialMovingAverage:
    def __init__(self, model, decay=0.5):
        self.model, self.decay = model, decay
        self.shadow = {k: v.clone().detach() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self):
        for k, v in self.model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)

    def apply_shadow(self):
        self.model.load_state_dict(self.shadow)


class ModelTrainer:
    def __init__(self, args):
        self.args = args
        self.model = Detector()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.8)
        self.ema = ExponentialMovingAverage(self.model)
        self.count = 0

    def train_one_epoch(self, loader):
        for signal, box in loader:
            if self.count == self.args.steps:
                return
            self.optimizer.zero_grad()
            loss = nn.functional.l1_loss(self.model(signal), box)
            loss.backward()
            self.optimizer.step()
            if self.args.fixed:
                self.ema.update()
            if self.count % 4 == 0:
                print(f"{self.count}: {loss.item():.4f}")
            self.count += 1

    def solve(self, loader):
        while self.count < self.args.steps:
            self.train_one_epoch(loader)
            self.ema.apply_shadow()


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=32)
arguments = parser.parse_args()
torch.manual_seed(arguments.seed)
left = torch.randint(0, 40, (256,))
right = left + torch.randint(4, 20, (256,))
grid = torch.arange(64)
signals = ((grid >= left[:, None]) & (grid < right[:, None])).float()[:, None]
boxes = torch.stack([left, right], 1).float() / 64
ModelTrainer(arguments).solve(DataLoader(TensorDataset(signals, boxes), batch_size=32, shuffle=True))
