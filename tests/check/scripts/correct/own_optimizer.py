import math
import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset


class Lion(Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        if lr <= 0:
            raise ValueError(lr)
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])
                m.lerp_(p.grad, 1 - b2)
        return loss


class WarmCosine(LRScheduler):
    def __init__(self, optimizer, warm, total, last_epoch=-1):
        self.warm, self.total = warm, total
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        t = self.last_epoch
        if t < self.warm:
            f = (t + 1) / self.warm
        else:
            f = 0.5 * (1 + math.cos(math.pi * (t - self.warm) / max(1, self.total - self.warm)))
        return [base * f for base in self.base_lrs]


def main():
    g = torch.Generator().manual_seed(3)
    x = torch.randn(4096, 32, generator=g)
    y = (x[:, :4].sum(1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    net = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 2)).cuda()
    opt = Lion(net.parameters(), lr=3e-4, weight_decay=1e-2)
    sched = WarmCosine(opt, 50, 5 * len(loader))
    for epoch in range(5):
        for a, b in loader:
            loss = nn.functional.cross_entropy(net(a.cuda()), b.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()


main()
