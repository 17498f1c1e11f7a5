"""Averaged weights are evaluated without `update_bn`: their batch norms hold the statistics of the first weights."""
# source: https://docs.pytorch.org/docs/stable/optim.html#taking-care-of-batch-normalization
# first effect: step 32
# names: running_mean, running_var, AveragedModel, module.1
# family: mode
# detectable: yes averaged weights are used with buffers that were neither averaged nor estimated since the average was made

import argparse

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    x = torch.randn(256, 16) * 3 + 1
    data = TensorDataset(x, (x[:, :4] + 0.3 * torch.randn(256, 4)).argmax(1))
    train, held = torch.utils.data.random_split(data, [192, 64])
    loader = DataLoader(train, batch_size=24, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.steps // 8):
        model.train()
        for features, labels in loader:
            loss = nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        averaged.update_parameters(model)
        print(f"epoch {epoch} loss {loss.item():.4f}")
    if args.fixed:
        update_bn(loader, averaged)
    averaged.eval()
    with torch.no_grad():
        right = sum((averaged(f).argmax(1) == y).sum().item() for f, y in DataLoader(held, batch_size=32))
    print(f"accuracy {right / len(held):.4f}")


if __name__ == "__main__":
    main()
