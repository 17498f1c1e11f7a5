import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 4).to(device)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
w = torch.tensor([1.0, 2.0, 1.0, 3.0], device=device)
crit = nn.BCEWithLogitsLoss(pos_weight=w)
for x, y in loader:
    out = m(x.to(device))
    loss = crit(out, F.one_hot(y, 4).float().to(device))
    opt.zero_grad(); loss.backward(); opt.step()
    pred = torch.sigmoid(out.detach()) > 0.5
