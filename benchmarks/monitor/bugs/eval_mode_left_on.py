"""`evaluate` switches the model to evaluation mode and nobody switches it back: dropout and batch statistics are off from then on."""
# source: https://github.com/shubhamagarwal92/mmd/issues/14
# first effect: step 10
# names: eval, train, Dropout, BatchNorm1d
# family: mode
# detectable: yes training steps run with modules in evaluation mode after training ones did not

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(
        nn.Linear(24, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, 5),
    )


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def main(args):
    torch.manual_seed(args.seed)
    centers = 2 * torch.randn(5, 24)
    y = torch.randint(0, 5, (480,))
    x = centers[y] + torch.randn(480, 24)
    train_loader = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=80)
    model = build()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    done = 0
    model.train()
    while done < args.steps:
        for inputs, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            done += 1
            if done == args.steps:
                break
        accuracy = evaluate(model, val_loader)
        if args.fixed:
            model.train()
        print(f"after {done}: loss {loss.item():.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    main(parser.parse_args())
