"""Two replicas that train apart because the loss is taken from the module inside the DDP wrapper."""
# source: https://x.com/jxmnop/status/1778520637193240892
# first effect: step 0
# names: encoder.0.weight, head.weight, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between the ranks after a step

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.encoder(x)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = Regressor()
    ddp_model = DDP(model)
    optimizer = torch.optim.AdamW(ddp_model.parameters(), lr=3e-3)

    generator = torch.Generator().manual_seed(1000 * args.seed + rank)
    direction = torch.linspace(-1, 1, 16)
    for step in range(args.steps):
        x = torch.randn(32, 16, generator=generator)
        y = torch.sin(x @ direction)
        prediction = ddp_model(x) if args.fixed else model(x)
        loss = nn.functional.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 0:
            print(f"[{step}] {loss.item():.4f}", flush=True)

    print(f"rank {rank}: weights sum {sum(p.double().sum().item() for p in model.parameters()):.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
