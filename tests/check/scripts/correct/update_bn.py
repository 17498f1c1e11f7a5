import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
bn_loader = DataLoader(rows, batch_size=256, shuffle=True, num_workers=2)
for x, y in loader:
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
with torch.no_grad():
    for x, _ in bn_loader:
        m(x.to(device))
m.eval()
