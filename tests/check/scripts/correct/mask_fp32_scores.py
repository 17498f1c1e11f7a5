import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class A(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, x):
        s = (self.q(x) @ self.k(x).T / 4).float()
        keep = torch.ones_like(s, dtype=torch.bool).tril()
        s = s.masked_fill(~keep, -1e9)
        return s.softmax(-1) @ self.v(x).float()
m = A().to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad()
    scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
