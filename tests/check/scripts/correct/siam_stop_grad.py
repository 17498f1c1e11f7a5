import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

f = nn.Linear(16, 8).to(device)
h = nn.Linear(8, 8).to(device)
opt = torch.optim.SGD([*f.parameters(), *h.parameters()], lr=0.05, momentum=0.9)
for x, _ in loader:
    x = x.to(device)
    z1, z2 = f(x + 0.1 * torch.randn_like(x)), f(x + 0.1 * torch.randn_like(x))
    p1, p2 = h(z1), h(z2)
    loss = -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) / 2
    opt.zero_grad(); loss.backward(); opt.step()
