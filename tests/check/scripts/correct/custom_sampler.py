import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler, BatchSampler, RandomSampler
torch.manual_seed(0)
y = torch.randint(0, 4, (1000,))
data = TensorDataset(torch.randn(1000, 16), y)
w = 1.0 / torch.bincount(y).float()
sampler = WeightedRandomSampler(w[y], len(y))
loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=2, pin_memory=True)
other = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 32, drop_last=True), num_workers=2)
m = nn.Linear(16, 4).cuda()
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for l in (loader, other):
    for x, t in l:
        loss = F.cross_entropy(m(x.cuda()), t.cuda())
        opt.zero_grad(); loss.backward(); opt.step()
