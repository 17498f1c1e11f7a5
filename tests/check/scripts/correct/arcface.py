import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class Head(nn.Module):
    def __init__(self, d, c):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(c, d))
        nn.init.xavier_uniform_(self.weight)
    def forward(self, f, y):
        cos = F.linear(F.normalize(f), F.normalize(self.weight))
        theta = torch.acos(cos.clamp(-1 + 1e-7, 1 - 1e-7))
        one = F.one_hot(y, self.weight.size(0))
        return 64.0 * torch.cos(theta + 0.5 * one)
body, head = nn.Linear(16, 8).to(device), Head(8, 4).to(device)
opt = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters()}], lr=0.1, momentum=0.9, weight_decay=5e-4)
for x, y in loader:
    y = y.to(device)
    loss = F.cross_entropy(head(body(x.to(device)), y), y)
    opt.zero_grad(); loss.backward(); opt.step()
