"""Transfer learning: the backbone is frozen with its BatchNorm in eval mode, then unfrozen at an epoch as a new group."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset


def conv_bn(i, o, stride):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.backbone = nn.Sequential(
            conv_bn(3, width, 2), conv_bn(width, 2 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )
        self.fc = nn.Linear(2 * width, classes)
        self.frozen = False

    def freeze(self):
        self.frozen = True
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.backbone.eval()

    def unfreeze(self):
        self.frozen = False
        for p in self.backbone.parameters():
            p.requires_grad = True
        self.backbone.train(self.training)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, x):
        return self.fc(self.backbone(x))


def dataset(n, classes, g, prototypes):
    y = torch.randint(0, classes, (n,), generator=g)
    return TensorDataset(prototypes[y] + 0.6 * torch.randn(n, 3, 12, 12, generator=g), y)


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    running_loss, running_corrects = 0.0, 0
    for inputs, labels in loader:
        if training:
            optimizer.zero_grad()
        with torch.set_grad_enabled(training):
            outputs = model(inputs)
            loss = criterion(outputs, labels)
        if training:
            loss.backward()
            optimizer.step()
        running_loss += loss.item() * inputs.size(0)
        running_corrects += (outputs.argmax(1) == labels).sum().item()
    n = len(loader.dataset)
    return running_loss / n, running_corrects / n


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    g = torch.Generator().manual_seed(args.seed)
    source, target = torch.randn(6, 3, 12, 12, generator=g), torch.randn(4, 3, 12, 12, generator=g)
    criterion = nn.CrossEntropyLoss()

    # a short pretraining on another task stands for downloaded weights
    model = Classifier(args.size, 6)
    pre = DataLoader(dataset(256, 6, g, source), batch_size=32, shuffle=True)
    run_epoch(model, pre, criterion, optim.Adam(model.parameters(), lr=3e-3))

    model.fc = nn.Linear(model.fc.in_features, 4)
    model.freeze()
    loaders = {
        "train": DataLoader(dataset(192, 4, g, target), batch_size=24, shuffle=True),
        "val": DataLoader(dataset(64, 4, g, target), batch_size=32),
    }
    optimizer = optim.SGD(model.fc.parameters(), lr=0.05, momentum=0.9)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    best_acc, best = 0.0, copy.deepcopy(model.state_dict())
    epochs = max(2, args.steps // len(loaders["train"]))
    for epoch in range(epochs):
        if epoch == epochs // 2:
            print("unfreezing the backbone")
            model.unfreeze()
            optimizer.add_param_group({"params": list(model.backbone.parameters()), "lr": 0.005, "initial_lr": 0.005})
            scheduler.base_lrs.append(0.005)
        train_loss, _ = run_epoch(model, loaders["train"], criterion, optimizer)
        scheduler.step()
        val_loss, acc = run_epoch(model, loaders["val"], criterion)
        if acc > best_acc:
            best_acc, best = acc, copy.deepcopy(model.state_dict())
        print(f"Epoch {epoch}/{epochs - 1} train {train_loss:.4f} val {val_loss:.4f} acc {acc:.4f}")
    model.load_state_dict(best)
    print(f"Best val Acc: {best_acc:.4f}")
