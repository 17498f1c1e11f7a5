"""An optimizer with master weights clips its own copies of the gradients by the norm of one rank's shard."""
# source: https://github.com/sgl-project/SpecForge/pull/663
# first effect: step 0
# names: clip_grad_norm_
# launch: torchrun --nproc-per-node 2
# family: clipping
# detectable: yes ranks that hold parts of one gradient clip by different norms

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class MasterWeights:
    def __init__(self, model, lr, limit, fixed):
        self.model = [p for p in model.parameters() if p.requires_grad]
        self.master = [nn.Parameter(p.to_local().detach().clone().float()) for p in self.model]
        self.optimizer = torch.optim.AdamW(self.master, lr=lr)
        self.limit, self.fixed = limit, fixed

    def step(self):
        for own, p in zip(self.master, self.model, strict=True):
            own.grad = p.grad.to_local().float()
        if self.fixed:
            square = nn.utils.get_total_norm([own.grad for own in self.master]).square()
            dist.all_reduce(square)
            nn.utils.clip_grads_with_norm_(self.master, self.limit, square.sqrt())
        else:
            nn.utils.clip_grad_norm_(self.master, self.limit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for own, p in zip(self.master, self.model, strict=True):
                p.to_local().copy_(own)
                p.grad = None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    draft = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 8))
    for layer in (draft[0], draft[2], draft):
        fully_shard(layer)
    optimizer = MasterWeights(draft, 3e-3, 0.1, args.fixed)
    truth = torch.randn(16, 8)
    drawn = torch.Generator().manual_seed(100 * args.seed + dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(16, 16, generator=drawn)
        loss = nn.functional.mse_loss(draft(x), x @ truth)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
