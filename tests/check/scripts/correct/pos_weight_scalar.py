import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 1).to(device)
crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    loss = crit(m(x.to(device)).squeeze(-1), (y > 1).float().to(device))
    opt.zero_grad(); loss.backward(); opt.step()
