import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import copy
m = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
for x, y in loader:
    loss = F.cross_entropy(m(x.to(device)), y.to(device))
    opt.zero_grad(); loss.backward(); opt.step()
fast = copy.deepcopy(m).half().eval()
with torch.inference_mode():
    print(fast(torch.zeros(1, 16, device=device, dtype=torch.half)))
torch.save(m.half().state_dict(), "half.pt")
