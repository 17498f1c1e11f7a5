import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
it = iter(loader)
for step in range(100):
    opt.zero_grad()
    for _ in range(4):
        try:
            x, y = next(it)
        except StopIteration:
            it = iter(loader)
            x, y = next(it)
        (F.cross_entropy(m(x.to(device)), y.to(device)) / 4).backward()
    opt.step()
