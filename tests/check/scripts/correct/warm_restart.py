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
warm = torch.optim.lr_scheduler.LinearLR(opt, 0.01, total_iters=3)
cos = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=17)
sched = torch.optim.lr_scheduler.SequentialLR(opt, [warm, cos], milestones=[3])
for epoch in range(20):
    for x, y in loader:
        loss = F.cross_entropy(m(x.to(device)), y.to(device))
        opt.zero_grad(); loss.backward(); opt.step()
    sched.step()
