import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
features = []
m[0].register_forward_hook(lambda mod, i, o: features.append(o))
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    features.clear()
    out = m(x.to(device))
    loss = F.cross_entropy(out, y.to(device)) + 1e-3 * features[0].pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
