import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

from torch.func import functional_call
m = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    params = dict(m.named_parameters())
    inner = F.cross_entropy(functional_call(m, params, (x[:16],)), y[:16])
    grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
    fast = {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads)}
    outer = F.cross_entropy(functional_call(m, fast, (x[16:],)), y[16:])
    opt.zero_grad(); outer.backward(); opt.step()
