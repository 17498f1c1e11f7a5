import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 8).to(device)
a, b = nn.Linear(8, 4).to(device), nn.Linear(8, 1).to(device)
opt = torch.optim.AdamW([*m.parameters(), *a.parameters(), *b.parameters()], lr=1e-3)
for x, y in loader:
    h = m(x.to(device))
    opt.zero_grad()
    F.cross_entropy(a(h), y.to(device)).backward(retain_graph=True)
    F.mse_loss(b(h).squeeze(-1), y.float().to(device)).backward()
    opt.step()
