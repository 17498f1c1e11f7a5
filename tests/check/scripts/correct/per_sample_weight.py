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
crit = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    l = crit(m(x.to(device)), y.to(device))
    w = (l.detach() > 0.5).float()
    loss = (l * w).sum() / w.sum().clamp(min=1)
    opt.zero_grad(); loss.backward(); opt.step()
