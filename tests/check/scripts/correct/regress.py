import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

data = TensorDataset(torch.randn(1000, 16), torch.randn(1000))
m = nn.Linear(16, 1).to(device)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
for x, y in DataLoader(data, batch_size=32, shuffle=True, num_workers=2):
    loss = F.mse_loss(m(x.to(device)).squeeze(-1), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
