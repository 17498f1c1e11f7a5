"""Segment road scenes with mixed precision and gradient accumulation, both of them wrong.

Nothing here raises. The effective learning rate is sixteen times the one that is written, every clip is a clip
of scaled gradients, and the scaler is never updated.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.io import read_image

CLASSES = 19


class Scenes(Dataset):
    """Pictures and their labels, one PNG each, of the same name in two folders."""

    def __init__(self, folder):
        self.images = sorted(Path(folder, "images").glob("*.png"))
        self.labels = Path(folder, "labels")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = read_image(str(self.images[index])).float() / 255.0
        label = read_image(str(self.labels / self.images[index].name))[0].long()
        return image, label


def step_down(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        self.down = nn.Sequential(*(step_down(a, b) for a, b in zip((3, *widths[:-1]), widths)))
        self.head = nn.Conv2d(widths[-1], CLASSES, 1)
        self.up = nn.Upsample(scale_factor=2 ** len(widths), mode="bilinear", align_corners=False)

    def forward(self, image):
        return self.up(self.head(self.down(image)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="scenes")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--accumulate", type=int, default=16)
    args = parser.parse_args()

    device = torch.device("cuda")
    loader = DataLoader(Scenes(args.data), batch_size=8, shuffle=True, num_workers=8, pin_memory=True)
    model = Segmenter().to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=255)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    scaler = torch.amp.GradScaler("cuda")

    for epoch in range(args.epochs):
        optimizer.zero_grad(set_to_none=True)
        for index, (image, label) in enumerate(loader):
            image, label = image.to(device, non_blocking=True), label.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(model(image), label)
            scaler.scale(loss).backward()
            if (index + 1) % args.accumulate == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                scaler.step(optimizer)
                optimizer.zero_grad(set_to_none=True)
            if index % 200 == 0:
                print(f"epoch {epoch} batch {index}: loss {loss.item():.3f}")
        torch.save(model.state_dict(), f"segmenter-{epoch}.pt")


if __name__ == "__main__":
    main()
