"""The norm to clip by is added up over the ranks, as if each held a part of the gradients, where each holds all of them."""
# source: https://github.com/pytorch/pytorch/pull/88955
# first effect: step 0
# names: clip_grads_with_norm_
# launch: torchrun --nproc-per-node 2
# family: clipping
# detectable: yes gradients are clipped by a norm that is not theirs, and the ranks hold the same ones

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    truth = torch.randn(16, 2)
    drawn = torch.Generator().manual_seed(100 * args.seed + dist.get_rank())
    for step in range(args.steps):
        x = torch.randn(16, 16, generator=drawn)
        loss = nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        square = nn.utils.get_total_norm([p.grad for p in model.parameters()]).square()
        if not args.fixed:
            dist.all_reduce(square)
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.5, square.sqrt())
        optimizer.step()
        if dist.get_rank() == 0 and step % 6 == 0:
            print(f"step {step} loss {loss.item():.4f} norm {square.sqrt().item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
