import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import numpy as np, random
from torch.utils.data import Dataset
class D(Dataset):
    def __init__(self, paths):
        self.paths = paths
    def __len__(self):
        return 10000
    def __getitem__(self, i):
        p = random.choice(self.paths)
        return torch.from_numpy(np.load(p))
m = nn.Linear(16, 16).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x in DataLoader(D(["a.npy"]), batch_size=8, shuffle=True, num_workers=4):
    loss = F.mse_loss(m(x.to(device)), x.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
