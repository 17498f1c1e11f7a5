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
        self.a = nn.Linear(16, 8)
    def forward(self, x):
        x = self.a(x)
        if not hasattr(self, "head"):
            self.add_module("head", nn.Linear(x.size(-1), 4).to(x.device))
        return self.head(x)
m = Net().to(device)
m(torch.zeros(1, 16, device=device))

opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()

