import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

rnn = nn.GRU(16, 32, batch_first=True).to(device)
head = nn.Linear(32, 4).to(device)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-3)
h = None
for x, y in loader:
    out, h = rnn(x.to(device).unsqueeze(1), h)
    loss = F.cross_entropy(head(out[:, -1]), y.to(device))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([*rnn.parameters(), *head.parameters()], 1.0)
    opt.step()
    h = h.detach()
