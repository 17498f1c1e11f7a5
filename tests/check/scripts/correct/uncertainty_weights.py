import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Linear(16, 5).to(device)
log_var = nn.Parameter(torch.zeros(2, device=device))
opt = torch.optim.AdamW([*m.parameters(), log_var], lr=1e-3)
for x, y in loader:
    out = m(x.to(device))
    l1 = F.cross_entropy(out[:, :4], y.to(device))
    l2 = F.mse_loss(out[:, 4], y.float().to(device))
    loss = (torch.exp(-log_var[0]) * l1 + torch.exp(-log_var[1]) * l2 + log_var.sum())
    opt.zero_grad(); loss.backward(); opt.step()
