"""A backbone that freezes its stages when train() is called, in a program that never calls it."""
# source: https://github.com/open-mmlab/mmpretrain/issues/702
# first effect: step 0
# names: backbone.stages.0.0.weight, backbone.stages.0.0.bias
# family: mode
# detectable: no nothing but the name of an option says that these weights should be frozen

import argparse

import torch
from torch import nn
from torch.nn import functional as F


class Backbone(nn.Module):
    def __init__(self, widths=(8, 16, 32), frozen_stages=1, freeze_at_once=False):
        super().__init__()
        before = 1
        self.stages = nn.ModuleList()
        for width in widths:
            self.stages.append(nn.Sequential(nn.Conv2d(before, width, 3, 2, 1), nn.GroupNorm(4, width), nn.ReLU()))
            before = width
        self.frozen_stages = frozen_stages
        if freeze_at_once:
            self._freeze_stages()

    def _freeze_stages(self):
        for stage in self.stages[: self.frozen_stages]:
            stage.eval()
            for parameter in stage.parameters():
                parameter.requires_grad = False

    def train(self, mode=True):
        super().train(mode)
        self._freeze_stages()
        return self

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x.mean(dim=(2, 3))


class ImageClassifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(32, classes)

    def forward(self, images):
        return self.head(self.backbone(images))


def run(args):
    torch.manual_seed(args.seed)
    model = ImageClassifier(Backbone(frozen_stages=1, freeze_at_once=args.fixed), classes=3)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3, weight_decay=0.01)
    stem = model.backbone.stages[0][0].weight.detach().clone()
    for step in range(args.steps):
        images = torch.rand(16, 1, 24, 24)
        labels = (images[:, 0, :8].mean(dim=(1, 2)) * 100).long() % 3
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print("step", step, "loss", f"{loss.item():.4f}")
    print("frozen stage moved by", (model.backbone.stages[0][0].weight - stem).abs().max().item())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    run(parser.parse_args())
