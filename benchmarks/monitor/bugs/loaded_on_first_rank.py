"""After the model was wrapped, only the first rank loads the pretrained weights: the replicas are apart from then on."""
# source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
# first effect: step 0
# names: module.0.weight, load_state_dict
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicated weights differ between ranks

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def network():
    return nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed)
    pretrained = network().state_dict()
    model = DistributedDataParallel(network())
    if rank == 0 or args.fixed:
        model.module.load_state_dict(pretrained)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(args.seed + rank + 1)
    for step in range(args.steps):
        x = torch.randn(16, 10)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
