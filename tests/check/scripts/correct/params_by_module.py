import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 32)
        self.b = nn.Linear(32, 4)
    def forward(self, x):
        return self.b(F.relu(self.a(x)))
m = Net().to(device)
opt = torch.optim.AdamW([{"params": m.a.parameters(), "lr": 1e-4}, {"params": m.b.parameters()}], lr=1e-3)
for x, y in loader:
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
