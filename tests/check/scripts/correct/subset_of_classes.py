import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import torchvision
from torchvision import transforms
from torch.utils.data import Subset
ds = torchvision.datasets.CIFAR100("data", train=True, download=True, transform=transforms.ToTensor())
idx = [i for i, t in enumerate(ds.targets) if t < 10]
m = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).to(device)
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for x, y in DataLoader(Subset(ds, idx), batch_size=64, shuffle=True, num_workers=2):
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
