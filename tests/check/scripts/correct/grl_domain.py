import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class GRL(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, l):
        ctx.l = l
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -ctx.l * g, None
f, c, d = nn.Linear(16, 8).to(device), nn.Linear(8, 4).to(device), nn.Linear(8, 1).to(device)
opt = torch.optim.Adam([*f.parameters(), *c.parameters(), *d.parameters()], lr=1e-3)
other = DataLoader(rows, batch_size=32, shuffle=True, num_workers=2)
for (x, y), (u, _) in zip(loader, other):
    h, g = f(x.to(device)), f(u.to(device))
    dom = torch.cat([d(GRL.apply(h, 0.1)), d(GRL.apply(g, 0.1))])
    lab = torch.cat([torch.zeros(len(x), 1), torch.ones(len(u), 1)]).to(device)
    loss = F.cross_entropy(c(h), y.to(device)) + F.binary_cross_entropy_with_logits(dom, lab)
    opt.zero_grad(); loss.backward(); opt.step()
