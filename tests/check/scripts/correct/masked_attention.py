import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    def forward(self, x):
        T = x.size(1)
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        a = self.n1(x)
        x = x + self.att(a, a, a, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.n2(x))
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(100, 64)
        self.p = nn.Parameter(torch.zeros(1, 32, 64))
        self.blocks = nn.ModuleList(Block(64, 4) for _ in range(2))
        self.out = nn.Linear(64, 100, bias=False)
        self.out.weight = self.e.weight
    def forward(self, i):
        x = self.e(i) + self.p[:, : i.size(1)]
        for b in self.blocks:
            x = b(x)
        return self.out(x)
m = LM().to(device)
opt = torch.optim.AdamW(m.parameters(), lr=3e-4)
tok = TensorDataset(torch.randint(0, 100, (1000, 33)))
for (t,) in DataLoader(tok, batch_size=16, shuffle=True, num_workers=2):
    t = t.to(device)
    logits = m(t[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 100), t[:, 1:].reshape(-1))
    opt.zero_grad(); loss.backward(); opt.step()
