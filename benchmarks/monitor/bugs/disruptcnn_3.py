"""Each rank lowers the rate by the validation loss of its own part of the data: the ranks go on with different rates."""
# source: https://github.com/rmchurch/disruptcnn/issues/3
# first effect: step 12
# names: ReduceLROnPlateau, lr
# launch: torchrun --nproc-per-node 2
# family: schedule
# detectable: yes ranks that average their gradients take steps with different rates

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    truth = torch.randn(12, 2)
    drawn = torch.Generator().manual_seed(100 * args.seed + dist.get_rank())
    held_x = torch.randn(48, 12, generator=drawn)
    # the second rank holds shots of another campaign, which the model does not get better at
    held_y = held_x @ (truth if dist.get_rank() == 0 else -truth)
    for step in range(args.steps):
        x = torch.randn(16, 12, generator=drawn)
        loss = nn.functional.mse_loss(model(x), x @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            model.eval()
            with torch.no_grad():
                total = nn.functional.mse_loss(model.module(held_x), held_y)
            model.train()
            if args.fixed:
                dist.all_reduce(total)
                total /= dist.get_world_size()
            scheduler.step(total)
            rate = optimizer.param_groups[0]["lr"]
            print(f"rank {dist.get_rank()} step {step} validation {total.item():.4f} rate {rate}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
