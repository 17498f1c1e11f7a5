"""Distillation of features through a convolution that belongs to the loss, and to no optimizer."""
# source: https://github.com/huangzongmou/yolov8_Distillation/issues/5
# first effect: step 0
# names: align
# family: optimizer
# detectable: yes parameters get gradients in each step and no optimizer holds them

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU())
        self.stage = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.SiLU())
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, images):
        features = self.stage(self.stem(images))
        return self.head(features), features


class FeatureLoss(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.align = nn.Conv2d(student, teacher, 1)
        self.norm = nn.BatchNorm2d(teacher, affine=False)

    def forward(self, ours, theirs):
        return nn.functional.mse_loss(self.norm(self.align(ours)), self.norm(theirs))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model, self.distillation = Backbone(8), Backbone(16).eval()
        self.d_loss = FeatureLoss(8, 16)
        parameters = [*self.model.parameters()]
        if args.fixed:
            parameters += self.d_loss.parameters()
        self.optimizer = torch.optim.SGD(parameters, lr=0.02, momentum=0.9, nesterov=True)

    def train(self, loader):
        for epoch in range(self.args.steps // len(loader)):
            self.model.train()
            total = 0.0
            for images, boxes in loader:
                prediction, ours = self.model(images)
                with torch.no_grad():
                    _, theirs = self.distillation(images)
                loss = nn.functional.mse_loss(prediction, boxes) + self.d_loss(ours, theirs)
                loss.backward()
                nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], 10.0)
                self.optimizer.step()
                self.model.zero_grad()
                self.d_loss.zero_grad()
                total += loss.item()
            print(f"epoch {epoch}: {total / len(loader):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    images = torch.rand(64, 3, 16, 16)
    boxes = nn.functional.avg_pool2d(images, 2).mean(1, keepdim=True).repeat(1, 5, 1, 1)
    Trainer(args).train(DataLoader(TensorDataset(images, boxes), 8, shuffle=True))


if __name__ == "__main__":
    main()
