"""Statistics of batch normalisation are estimated anew on both ranks and averaged, each weighted by its own number of samples only."""
# source: https://github.com/facebookresearch/fvcore/issues/152
# first effect: step 12
# names: running_mean, running_var
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes statistics that the ranks have just worked out together differ between them

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@torch.no_grad()
def estimate(norm, model, batches, fixed):
    """Average the statistics of some batches over both ranks."""
    momentum, norm.momentum = norm.momentum, 1.0
    mean, var, count = torch.zeros_like(norm.running_mean), torch.zeros_like(norm.running_var), torch.zeros(())
    for batch in batches:
        model(batch)
        mean += norm.running_mean * len(batch)
        var += norm.running_var * len(batch)
        count += len(batch)
    own = count.clone()
    for total in (mean, var, count):
        dist.all_reduce(total)
    if not fixed:
        count = own * dist.get_world_size()
    norm.running_mean.copy_(mean / count)
    norm.running_var.copy_(var / count)
    norm.momentum = momentum


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    wrapped = DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(args.seed + 1 + rank)
    for step in range(args.steps):
        x = torch.randn(24, 10) + 0.5
        loss = nn.functional.cross_entropy(wrapped(x), x[:, :3].argmax(dim=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 12 == 11:
            batches = [torch.randn(16 + 8 * rank, 10) + 0.5 for _ in range(4)]
            estimate(model[1], model, batches, args.fixed)
            model.eval()
            with torch.no_grad():
                held = torch.randn(64, 10, generator=torch.Generator().manual_seed(5)) + 0.5
                right = (model(held).argmax(dim=1) == held[:, :3].argmax(dim=1)).float().mean()
            model.train()
            print(
                f"rank {rank} step {step} loss {loss.item():.4f} right {right.item():.6f} {model[1].running_mean[0]:.6f}"
            )
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
