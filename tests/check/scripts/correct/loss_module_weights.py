import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class Focal(nn.Module):
    def __init__(self, alpha, gamma=2.0):
        super().__init__()
        self.register_buffer("alpha", alpha)
        self.gamma = gamma
    def forward(self, logits, y):
        ce = F.cross_entropy(logits, y, weight=self.alpha, reduction="none")
        return ((1 - torch.exp(-ce)) ** self.gamma * ce).mean()
m = nn.Linear(16, 4).to(device)
crit = Focal(torch.tensor([1.0, 2.0, 1.0, 1.0])).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    loss = crit(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
