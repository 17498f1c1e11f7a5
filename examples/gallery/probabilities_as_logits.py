import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, images):
        return torch.softmax(self.layers(images), dim=-1)


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
digits = TensorDataset(torch.load("images.pt", weights_only=True), torch.load("labels.pt", weights_only=True))

for images, labels in DataLoader(digits, batch_size=64, shuffle=True):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
