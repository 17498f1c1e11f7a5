import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
losses = []
for x, y in loader:
    parts = []
    for xs, ys in zip(x.split(8), y.split(8)):
        parts.append(F.cross_entropy(m(xs.to(device)), ys.to(device)))
    loss = torch.stack(parts).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.detach())
print(torch.stack(losses).mean().item())
