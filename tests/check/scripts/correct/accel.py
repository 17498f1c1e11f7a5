import torch
from torch import nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
set_seed(1)
acc = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
rows = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=2)
model = nn.Linear(16, 4)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=3 * len(loader) // 4)
model, opt, loader, sched = acc.prepare(model, opt, loader, sched)
for epoch in range(3):
    for x, y in loader:
        with acc.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            acc.backward(loss)
            if acc.sync_gradients:
                acc.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad()
    acc.wait_for_everyone()
    if acc.is_main_process:
        acc.save(acc.unwrap_model(model).state_dict(), "m.pt")
