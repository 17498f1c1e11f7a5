"""Images of bytes are turned into floats and nothing more: the network is fed numbers from 0 to 255."""
# source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToDtype.html
# first effect: step 0
# names: input, conv1
# family: data
# detectable: yes what goes into the network is two orders of magnitude larger than what its initialisation assumes

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, count, fixed):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (count, 1, 14, 14), generator=generator).to(torch.uint8)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        for image, label in zip(self.images, self.labels.tolist(), strict=True):
            image[0, 3 * label : 3 * label + 4] = 250
        self.fixed = fixed

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].float()
        if self.fixed:
            image = (image / 255 - 0.5) / 0.5
        return image, self.labels[index]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 12, 3)
        self.fc = nn.Linear(12 * 2 * 2, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = LeNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(Shapes(256, args.fixed), batch_size=32, shuffle=True)
    for epoch in range(args.steps // 8):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
