import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(100, 64)
        l = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
        self.t = nn.TransformerEncoder(l, 2, enable_nested_tensor=False)
        self.o = nn.Linear(64, 100)
    def forward(self, ids):
        inp = ids.new_zeros(ids.shape)
        inp[:, 1:] = ids[:, :-1].clone()
        inp[:, 0] = 1
        mask = nn.Transformer.generate_square_subsequent_mask(inp.size(1), device=ids.device)
        return self.o(self.t(self.e(inp), mask=mask, is_causal=True))
m = LM().to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for (t,) in DataLoader(TensorDataset(torch.randint(0, 100, (1000, 33))), batch_size=16, shuffle=True, num_workers=2):
    t = t.to(device)
    loss = F.cross_entropy(m(t).flatten(0, 1), t.flatten())
    opt.zero_grad(); loss.backward(); opt.step()
