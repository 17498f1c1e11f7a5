import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

model = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
prob = nn.Linear(16, 4).to(device).eval()
for p in prob.parameters():
    p.requires_grad = False
for x, y in loader:
    x, y = x.to(device), y.to(device)
    target = torch.softmax(prob(x), dim=-1)
    loss = F.cross_entropy(model(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
