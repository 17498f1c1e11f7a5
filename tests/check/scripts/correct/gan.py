import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
og = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
od = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
for x, _ in loader:
    x = x.to(device)
    z = torch.randn(x.size(0), 8, device=device)
    fake = G(z)
    D.zero_grad()
    real_loss = F.binary_cross_entropy_with_logits(D(x), torch.ones(x.size(0), 1, device=device))
    fake_loss = F.binary_cross_entropy_with_logits(D(fake.detach()), torch.zeros(x.size(0), 1, device=device))
    (real_loss + fake_loss).backward()
    od.step()
    G.zero_grad()
    F.binary_cross_entropy_with_logits(D(fake), torch.ones(x.size(0), 1, device=device)).backward()
    og.step()
