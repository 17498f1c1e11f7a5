import click, torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--lr", type=float, default=1e-3)
@click.option("--amp/--no-amp", default=True)
@click.option("--milestones", type=int, multiple=True, default=(3, 6))
def main(lr, amp, milestones):
    torch.manual_seed(1)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    m = nn.Linear(16, 4).to(dev)
    opt = torch.optim.AdamW(m.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, list(milestones))
    data = TensorDataset(torch.randn(1000, 16), torch.randint(0, 4, (1000,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=True)
    for epoch in range(9):
        for x, y in loader:
            with torch.autocast(dev, dtype=torch.bfloat16, enabled=amp):
                loss = F.cross_entropy(m(x.to(dev, non_blocking=True)), y.to(dev, non_blocking=True))
            opt.zero_grad(); loss.backward(); opt.step()
        sched.step()
if __name__ == "__main__":
    main()
