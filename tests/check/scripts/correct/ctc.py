import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.LSTM(16, 32, batch_first=True).to(device)
o = nn.Linear(32, 30).to(device)
opt = torch.optim.Adam([*m.parameters(), *o.parameters()], lr=1e-3)
data = TensorDataset(torch.randn(500, 50, 16), torch.randint(1, 30, (500, 10)))
for x, y in DataLoader(data, batch_size=16, shuffle=True, num_workers=2):
    lp = o(m(x.to(device))[0]).log_softmax(-1).transpose(0, 1)
    loss = F.ctc_loss(lp, y.to(device), torch.full((x.size(0),), 50), torch.full((x.size(0),), 10))
    opt.zero_grad(); loss.backward(); opt.step()
