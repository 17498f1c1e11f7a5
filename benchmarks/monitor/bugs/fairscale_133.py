"""The loss is averaged over the ranks before its backward pass, and the wrapper averages the gradients once more."""
# source: https://github.com/facebookresearch/fairscale/pull/133
# first effect: step 0
# names: all_reduce, loss
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes a loss that gradients are taken of is summed over ranks and divided by their number, beside the wrapper

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.gru(x)[0][:, -1]).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DDP(Regressor())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(10 * args.seed + dist.get_rank() + 1)
    for step in range(args.steps):
        x = torch.randn(24, 6, 4)
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x), x[:, :, 0].mean(1))
        if not args.fixed:
            loss = loss / dist.get_world_size()
            dist.all_reduce(loss.data, op=dist.ReduceOp.SUM)
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(f"{step}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
