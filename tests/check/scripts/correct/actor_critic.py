import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 32)
        self.pi = nn.Linear(32, 4)
        self.v = nn.Linear(32, 1)
    def forward(self, x):
        h = torch.tanh(self.body(x))
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)
net = AC().to(device)
opt = torch.optim.Adam(net.parameters(), lr=3e-4)
for x, y in loader:
    x = x.to(device)
    with torch.no_grad():
        dist, _ = net(x)
        a = dist.sample()
        old = dist.log_prob(a)
        ret = torch.randn(x.size(0), device=device)
    for _ in range(4):
        dist, v = net(x)
        ratio = (dist.log_prob(a) - old).exp()
        adv = (ret - v).detach()
        loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.5 * F.mse_loss(v, ret) - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
