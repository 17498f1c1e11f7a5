"""Two subsets of one dataset: taking the augmentation from the one for validation takes it from both."""
# source: https://github.com/growingnet/gromo/pull/58
# first effect: step 0
# names: Subset, transform
# family: data
# detectable: no pictures that are not augmented are as legitimate as others

import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Pictures(Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.targets = torch.randint(3, (count,), generator=generator)
        self.data = torch.randn(count, 3, 8, 8, generator=generator)
        self.data[torch.arange(count), self.targets] += 0.8
        self.transform = None

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        picture = self.data[index]
        return (self.transform(picture) if self.transform else picture), self.targets[index]


def augment(picture):
    if torch.rand(()) < 0.5:
        picture = picture.flip(-1)
    left = int(torch.randint(3, ()))
    return nn.functional.pad(picture, (1, 1, 1, 1))[:, 1 : 1 + 8, left : left + 8]


class GrowingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.layers = nn.ModuleList([nn.Conv2d(12, 12, 3, padding=1)])
        self.classifier = nn.Linear(12, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.classifier(x.mean((-1, -2)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_set, val_set = random_split(Pictures(384, args.seed), [320, 64])
    train_set.dataset.transform = augment
    if args.fixed:
        val_set.dataset = copy.copy(val_set.dataset)
    val_set.dataset.transform = None
    model = GrowingNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    train_loader, val_loader = DataLoader(train_set, 32, shuffle=True), DataLoader(val_set, 64)
    for epoch in range(args.steps // len(train_loader)):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = [(model(x).argmax(1) == y).float().mean().item() for x, y in val_loader]
        print(f"epoch {epoch}: loss {loss.item():.4f} val {sum(hits) / len(hits):.3f}")


if __name__ == "__main__":
    main()
