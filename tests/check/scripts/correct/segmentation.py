import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 21, 1)).to(device)
opt = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)
crit = nn.CrossEntropyLoss(ignore_index=255)
data = TensorDataset(torch.randn(100, 3, 64, 64), torch.randint(0, 21, (100, 64, 64)))
for x, y in DataLoader(data, batch_size=8, shuffle=True, num_workers=2):
    loss = crit(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
