"""Data parallelism by hand: weights broadcast from rank 0, gradients averaged by all_reduce after each backward."""
# launch: torchrun --standalone --nproc-per-node 2

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, kernel_size=3)
        self.conv2_drop = nn.Dropout2d(0.2)
        self.fc = nn.Linear(width * 9, 4)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv1(x)), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


class Partition:
    """Every world-th sample, from an order that all ranks draw alike."""

    def __init__(self, n, seed):
        order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        self.index = order[dist.get_rank() :: dist.get_world_size()]

    def batches(self, size, seed):
        order = torch.randperm(len(self.index), generator=torch.Generator().manual_seed(seed))
        for i in range(0, len(order) - size + 1, size):
            yield self.index[order[i : i + size]]


def run(args):
    torch.manual_seed(args.seed)
    labels = torch.randint(0, 4, (512,))
    images = 0.5 * torch.randn(512, 1, 8, 8)
    for k in range(4):
        r, c = divmod(k, 2)
        images[labels == k, :, 4 * r : 4 * r + 4, 4 * c : 4 * c + 4] += 1
    part = Partition(512, args.seed)
    model = Net(args.size)
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    torch.manual_seed(args.seed + dist.get_rank())
    step = epoch = 0
    while step < args.steps:
        epoch_loss, n = 0.0, 0
        for index in part.batches(16, args.seed + epoch):
            optimizer.zero_grad()
            loss = F.nll_loss(model(images[index]), labels[index])
            epoch_loss += loss.item()
            loss.backward()
            average_gradients(model)
            optimizer.step()
            step += 1
            n += 1
            if step == args.steps:
                break
        print("Rank", dist.get_rank(), ", epoch", epoch, ":", epoch_loss / n, flush=True)
        epoch += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--size", type=int, default=8)
    dist.init_process_group("gloo")
    run(parser.parse_args())
    dist.destroy_process_group()
