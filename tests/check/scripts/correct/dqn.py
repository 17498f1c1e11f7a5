import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import random
from collections import deque
q = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
t = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)).to(device)
t.load_state_dict(q.state_dict())
t.requires_grad_(False)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
buf = deque(maxlen=10000)
for step in range(20000):
    s = torch.randn(4)
    with torch.no_grad():
        a = q(s.to(device)).argmax().item() if random.random() > 0.1 else random.randrange(2)
    buf.append((s, a, random.random(), torch.randn(4)))
    if len(buf) < 1000:
        continue
    b = random.sample(buf, 64)
    S, S2 = torch.stack([e[0] for e in b]).to(device), torch.stack([e[3] for e in b]).to(device)
    A = torch.tensor([e[1] for e in b], device=device)
    R = torch.tensor([e[2] for e in b], device=device)
    target = R + 0.99 * t(S2).max(1).values
    loss = F.smooth_l1_loss(q(S).gather(1, A.unsqueeze(1)).squeeze(1), target)
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 500 == 0:
        t.load_state_dict(q.state_dict())
