import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

model = nn.Linear(16, 4).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
opt.zero_grad(set_to_none=True)
for step, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x.to(device)), y.to(device)) / 4
    loss.backward()
    if (step + 1) % 4 == 0 or step + 1 == len(loader):
        opt.step()
        opt.zero_grad(set_to_none=True)
