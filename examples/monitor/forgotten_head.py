"""The training of train.py with two lines swapped: the optimizer holds the head that was there before."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(1024, 16)
classes = (points[:, :4].sum(1) > 0).long() + 2 * (points[:, 4:8].sum(1) > 0).long()
train_set = TensorDataset(points[:768], classes[:768])
test_set = TensorDataset(points[768:], classes[768:])


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.encoder(x))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.head = nn.Linear(64, 4)  # four classes, not ten
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)
    for epoch in range(3):
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy(model, test_loader):.2f}")


if __name__ == "__main__":
    main()
