import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

m = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.Linear(32, 4)).to(device)
opt = torch.optim.Adam(m.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="max", patience=3)
val = DataLoader(rows, batch_size=64)
def evaluate():
    was = m.training
    m.eval()
    right = 0
    with torch.inference_mode():
        for x, y in val:
            right += (m(x.to(device)).argmax(1) == y.to(device)).sum().item()
    m.train(was)
    return right / len(rows)
for epoch in range(20):
    m.train()
    for x, y in loader:
        loss = F.cross_entropy(m(x.to(device)), y.to(device))
        opt.zero_grad(); loss.backward(); opt.step()
    sched.step(evaluate())
