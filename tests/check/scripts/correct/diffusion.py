import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Linear(17, 64), nn.SiLU(), nn.Linear(64, 16)).to(device)
ema = torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.999))
opt = torch.optim.AdamW(m.parameters(), lr=1e-4)
betas = torch.linspace(1e-4, 0.02, 1000, device=device)
abar = torch.cumprod(1 - betas, 0)
for x, _ in loader:
    x = x.to(device)
    t = torch.randint(0, 1000, (x.size(0),), device=device)
    n = torch.randn_like(x)
    a = abar[t].unsqueeze(1)
    noisy = a.sqrt() * x + (1 - a).sqrt() * n
    loss = F.mse_loss(m(torch.cat([noisy, t.unsqueeze(1) / 1000], 1)), n)
    opt.zero_grad(); loss.backward(); opt.step()
    ema.update_parameters(m)
