import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 4).to(device)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    F.cross_entropy(m(x), y).backward()
    eps = []
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in m.parameters()]).norm()
        for p in m.parameters():
            e = 0.05 * p.grad / (norm + 1e-12)
            p.add_(e)
            eps.append(e)
    opt.zero_grad()
    F.cross_entropy(m(x), y).backward()
    with torch.no_grad():
        for p, e in zip(m.parameters(), eps):
            p.sub_(e)
    opt.step()
    opt.zero_grad()
