import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

a = nn.Linear(16, 8).to(device)
b = nn.Linear(8, 4).to(device)
oa = torch.optim.SGD(a.parameters(), lr=0.1)
ob = torch.optim.Adam(b.parameters(), lr=1e-3)
scaler = torch.cuda.amp.GradScaler()
for x, y in loader:
    oa.zero_grad(); ob.zero_grad()
    with torch.cuda.amp.autocast():
        loss = F.cross_entropy(b(a(x.to(device))), y.to(device))
    scaler.scale(loss).backward()
    scaler.step(oa)
    scaler.step(ob)
    scaler.update()
