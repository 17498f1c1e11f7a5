"""Stochastic weight averaging with SWALR in the last third and update_bn before the averaged model is evaluated."""

import argparse

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def get_model(width):
    return nn.Sequential(
        nn.Linear(10, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, 3),
    )


def evaluate(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--steps", type=int, default=72)
    parser.add_argument("--size", type=int, default=24)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(512, 10)
    y = (x[:, :3] + 0.5 * x[:, 3:6] ** 2).argmax(1)
    train_loader = DataLoader(TensorDataset(x[:384], y[:384]), batch_size=48, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[384:], y[384:]), batch_size=64)

    model = get_model(args.size)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    epochs = max(3, args.steps // len(train_loader))
    swa_start = 2 * epochs // 3
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=swa_start)
    swa_scheduler = SWALR(optimizer, anneal_strategy="linear", anneal_epochs=1, swa_lr=0.05)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        model.train()
        for inputs, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), target)
            loss.backward()
            optimizer.step()
        if epoch >= swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
        print(
            f"epoch {epoch} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.4f} acc {evaluate(model, test_loader):.3f}"
        )
    update_bn(train_loader, swa_model)
    print(f"averaged {int(swa_model.n_averaged)} models, acc {evaluate(swa_model, test_loader):.3f}")


if __name__ == "__main__":
    main()
