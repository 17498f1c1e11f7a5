import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 32)
        self.mu, self.logvar = nn.Linear(32, 4), nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16), nn.Sigmoid())
    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, lv = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        return self.dec(z), mu, lv
m = VAE().to(device)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for x, _ in loader:
    x = torch.sigmoid(x.to(device))
    r, mu, lv = m(x)
    loss = F.binary_cross_entropy(r, x, reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
    opt.zero_grad()
    loss.backward()
    opt.step()
