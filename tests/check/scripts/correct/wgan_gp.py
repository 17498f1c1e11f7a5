import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
C = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
og = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.9))
oc = torch.optim.Adam(C.parameters(), lr=1e-4, betas=(0.0, 0.9))
for i, (x, _) in enumerate(loader):
    x = x.to(device)
    with torch.no_grad():
        fake = G(torch.randn(x.size(0), 8, device=device))
    eps = torch.rand(x.size(0), 1, device=device)
    mid = (eps * x + (1 - eps) * fake).requires_grad_(True)
    grad, = torch.autograd.grad(C(mid).sum(), mid, create_graph=True)
    loss = C(fake).mean() - C(x).mean() + 10 * ((grad.norm(2, dim=1) - 1) ** 2).mean()
    oc.zero_grad()
    loss.backward()
    oc.step()
    if i % 5 == 0:
        og.zero_grad()
        (-C(G(torch.randn(x.size(0), 8, device=device))).mean()).backward()
        og.step()
