import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
        self.head = nn.Linear(32, 4)

    def embed(self, x):
        return torch.from_numpy(self.encoder(x).detach().numpy())

    def forward(self, x):
        return self.head(self.embed(x))


torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 64), torch.randint(0, 4, (512,)))
model = Network()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for x, y in DataLoader(data, batch_size=32, shuffle=True):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
