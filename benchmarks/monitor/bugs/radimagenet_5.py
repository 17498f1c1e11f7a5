"""A cross-validation whose model is made once: from the second fold on it is evaluated on what it was trained on."""
# source: https://github.com/BMEII-AI/RadImageNet/issues/5
# first effect: step 20
# names: loader3
# family: data
# detectable: yes the weights of the second fold were trained on what it holds out

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def network():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 2))


def run_fold(model, data, train, held):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    training = DataLoader(Subset(data, train), batch_size=16, shuffle=True)
    evaluation = DataLoader(Subset(data, held), batch_size=16)
    for _ in range(2):
        model.train()
        for images, labels in training:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(images).argmax(1) == labels).sum().item() for images, labels in evaluation)
    return right / len(held)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    images = torch.randn(240, 1, 10, 10)
    data = TensorDataset(images, (images.mean((1, 2, 3)) > 0).long())
    order = torch.randperm(240).tolist()
    model = network()
    for fold in range(min(3, max(2, args.steps // 20))):
        if args.fixed:
            model = network()
        held = order[fold * 80 : (fold + 1) * 80]
        train = [index for index in order if index not in held]
        print(f"fold {fold} accuracy {run_fold(model, data, train, held):.3f}")


if __name__ == "__main__":
    main()
