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
        self.a = nn.Linear(16, 4)
    def forward(self, x):
        return self.a(x)
    def training_step(self, x, y):
        x = F.dropout(x, 0.1)  # augmentation
        return F.cross_entropy(self(x), y)
m = Net().to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    loss = m.training_step(x.to(device), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
