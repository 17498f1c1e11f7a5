"""The backbone is frozen when the model is wrapped and unfrozen later: its gradients are never averaged over the ranks."""
# source: https://github.com/Lightning-AI/pytorch-lightning/issues/20340
# first effect: step 8
# names: module.backbone.weight, module.backbone.bias, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes the unfrozen weights of the replicas differ from the first step that changes them

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(16, 32)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.backbone(x))).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--unfreeze-at", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(args.seed)
    net = Model()
    net.backbone.requires_grad_(False)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.head.parameters(), lr=5e-3)
    torch.manual_seed(args.seed + 100 * dist.get_rank())
    for step in range(args.steps):
        if step == args.unfreeze_at:
            net.backbone.requires_grad_(True)
            optimizer.add_param_group({"params": net.backbone.parameters(), "lr": 2e-3})
            if args.fixed:
                model = DistributedDataParallel(net)
        x = torch.randn(32, 16)
        loss = nn.functional.mse_loss(model(x), torch.sin(x[:, 0]) + x[:, 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


main()
