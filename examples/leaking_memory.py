"""Classify satellite images with ResNet-50, and keep every loss for a curve at the end of the epoch.

`retain_graph=True` was once added to silence an error message; with it, each kept loss holds the activations of its step.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import resnet50


def loaders(folder, batch_size):
    augmented = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    plain = transforms.Compose([transforms.Resize(224), transforms.CenterCrop(224), transforms.ToTensor()])
    training = datasets.ImageFolder(f"{folder}/train", augmented)
    testing = datasets.ImageFolder(f"{folder}/test", plain)
    settings = {"batch_size": batch_size, "num_workers": 8, "pin_memory": True}
    return DataLoader(training, shuffle=True, **settings), DataLoader(testing, **settings)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    for image, label in loader:
        image, label = image.to(device, non_blocking=True), label.to(device, non_blocking=True)
        right += (model(image).argmax(dim=1) == label).sum()
    model.train()
    return right.item() / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="satellite")
    parser.add_argument("--classes", type=int, default=45)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()

    device = torch.device("cuda")
    training, testing = loaders(args.data, args.batch_size)
    model = resnet50(num_classes=args.classes).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)

    for epoch in range(args.epochs):
        curve = []
        for image, label in training:
            image, label = image.to(device, non_blocking=True), label.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = criterion(model(image), label)
            optimizer.zero_grad(set_to_none=True)
            loss.backward(retain_graph=True)
            optimizer.step()
            curve.append(loss)
        schedule.step()
        mean = torch.stack(curve).mean().item()
        print(f"epoch {epoch}: loss {mean:.3f}, accuracy {accuracy(model, testing, device):.3f}")

    torch.save(model.state_dict(), "satellite.pt")


if __name__ == "__main__":
    main()
