import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

backbone = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
backbone.load_state_dict(torch.load("b.pt", weights_only=True))
for p in backbone.parameters():
    p.requires_grad_(False)
model = nn.Sequential(backbone, nn.Linear(32, 4)).to(device)
opt = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-3)
for x, y in loader:
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    opt.zero_grad()
    loss.backward()
    opt.step()
