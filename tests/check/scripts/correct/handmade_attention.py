import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class Att(nn.Module):
    def __init__(self, d=64, h=4):
        super().__init__()
        self.qkv, self.o, self.h = nn.Linear(d, 3 * d), nn.Linear(d, d), h
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        a = (q @ k.transpose(-2, -1)) * (C // self.h) ** -0.5
        a = a.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(B, T, C))
m = nn.Sequential(nn.Embedding(50, 64), Att(), nn.Linear(64, 50)).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=3e-4)
for (t,) in DataLoader(TensorDataset(torch.randint(0, 50, (1000, 65))), batch_size=16, shuffle=True, num_workers=2):
    t = t.to(device)
    loss = F.cross_entropy(m(t[:, :-1]).transpose(1, 2), t[:, 1:])
    opt.zero_grad(); loss.backward(); opt.step()
