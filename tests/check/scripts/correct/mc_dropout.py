import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 4)).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
val = DataLoader(rows, batch_size=256)
for x, y in loader:
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
m.eval()
for layer in m.modules():
    if isinstance(layer, nn.Dropout):
        layer.train()
with torch.no_grad():
    for x, _ in val:
        samples = torch.stack([m(x.to(device)).softmax(-1) for _ in range(10)])
        print(samples.mean(0), samples.var(0))
