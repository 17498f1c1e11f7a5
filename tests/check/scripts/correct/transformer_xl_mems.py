import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class XL(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(100, 32)
        self.a = nn.MultiheadAttention(32, 4, batch_first=True)
        self.o = nn.Linear(32, 100)
    def forward(self, ids, mems=None):
        h = self.e(ids)
        with torch.no_grad():
            new = h.detach()
        kv = h if mems is None else torch.cat([mems, h], 1)
        out, _ = self.a(h, kv, kv, need_weights=False)
        return self.o(out), new
m = XL().to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
mems = None
text = torch.randint(0, 100, (16, 3201), device=device)
for i in range(0, 3200, 32):
    x, y = text[:, i:i + 32], text[:, i + 1:i + 33]
    logits, mems = m(x, mems)
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    opt.zero_grad(); loss.backward(); opt.step()
