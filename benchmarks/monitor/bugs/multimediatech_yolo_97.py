"""A detector's averages are kept from the beginning and never brought on; before each checkpoint they are put into the model for good."""
# source: https://github.com/MultimediaTechLab/YOLO/issues/97
# first effect: step 12
# names: backbone, head
# family: checkpoint
# detectable: yes after each epoch the weights are again those of the beginning

import argparse
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class ExponentialMovingAverage:
    def __init__(self, model, decay):
        self.model, self.decay, self.shadow, self.backup = model, decay, {}, {}
        self.register()

    def register(self):
        for name, parameter in self.model.named_parameters():
            self.shadow[name] = parameter.data.clone()

    def update(self):
        for name, parameter in self.model.named_parameters():
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * parameter.data

    def apply_shadow(self):
        for name, parameter in self.model.named_parameters():
            self.backup[name] = parameter.data.clone()
            parameter.data.copy_(self.shadow[name])

    def restore(self):
        for name, parameter in self.model.named_parameters():
            parameter.data.copy_(self.backup[name])


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.SiLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.SiLU()
        )
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, images):
        return self.head(self.backbone(images))


class ModelTrainer:
    def __init__(self, model, fixed, folder):
        self.model, self.fixed, self.folder = model, fixed, folder
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
        self.ema = ExponentialMovingAverage(model, decay=0.5)

    def train_one_epoch(self, loader):
        self.model.train()
        total = 0.0
        for images, targets in loader:
            self.optimizer.zero_grad()
            loss = F.smooth_l1_loss(self.model(images), targets)
            loss.backward()
            self.optimizer.step()
            if self.fixed:
                self.ema.update()
            total += loss.item()
        return total / len(loader)

    def save_checkpoint(self, epoch):
        checkpoint = {"epoch": epoch, "model_state_dict": self.model.state_dict()}
        self.ema.apply_shadow()
        checkpoint["model_state_dict_ema"] = self.model.state_dict()
        torch.save(checkpoint, os.path.join(self.folder, f"epoch_{epoch}.pt"))
        if self.fixed:
            self.ema.restore()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    images = F.interpolate(torch.rand(96, 1, 4, 4), size=16)
    targets = F.avg_pool2d(images, 4) * torch.arange(1, 6).view(1, 5, 1, 1) / 3
    loader = DataLoader(TensorDataset(images, targets), 8, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ModelTrainer(Detector(), args.fixed, folder)
        for epoch in range(args.steps // len(loader)):
            print(f"epoch {epoch}: {trainer.train_one_epoch(loader):.4f}")
            trainer.save_checkpoint(epoch)


if __name__ == "__main__":
    main()
