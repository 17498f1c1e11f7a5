"""Small images that two workers of a loader flip and shift at random, started anew for each epoch; floats from 0 to 1."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Squares and crosses at random places."""

    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(2, (count,), generator=draw)
        self.images = torch.rand(count, 1, 12, 12, generator=draw) * 0.3
        for image, label in zip(self.images, self.labels, strict=True):
            if label:
                image[0, 4:8, 4:8] = 1.0
            else:
                image[0, 6, 2:10] = 1.0
                image[0, 2:10, 6] = 1.0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        shift = int(torch.randint(-2, 3, ()))
        return image.roll(shift, dims=-2), self.labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--size", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    net = nn.Sequential(
        nn.Conv2d(1, args.size, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(args.size, args.size, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(args.size * 16, 2),
    )
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    loader = DataLoader(Shapes(96, args.seed), batch_size=12, shuffle=True, num_workers=2)
    done = 0
    while done < args.steps:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(net(images), labels)
            adam.zero_grad()
            loss.backward()
            adam.step()
            done += 1
            if done >= args.steps:
                break
        print(f"{done} steps: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
