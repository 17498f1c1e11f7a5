import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
device = "cuda"
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)

import argparse
p = argparse.ArgumentParser()
p.add_argument("--amp", action="store_true")
args = p.parse_args()
m = nn.Linear(16, 4).to(device)
opt = torch.optim.AdamW(m.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
for x, y in loader:
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
        loss = F.cross_entropy(m(x.to(device)), y.to(device))
    if args.amp:
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
    else:
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
