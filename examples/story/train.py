"""Pre-train a language model of 370 million parameters on four GPUs: short windows for a thousand steps, then long ones.

    torchrun --nproc_per_node 4 train.py                   the job
    torchrun --nproc_per_node 4 train.py @rehearsal.txt    the same lines with a tiny model, on four CPU processes
"""

import argparse
import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from shards import Windows
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, longest, layers, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def options():
    parser = argparse.ArgumentParser(fromfile_prefix_chars="@")
    parser.add_argument("--data", default="data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--short", type=int, default=512, help="tokens in a window, for the first thousand steps")
    parser.add_argument("--long", type=int, default=2048, help="tokens in a window, afterwards")
    parser.add_argument("--vocabulary", type=int, default=32768)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    return parser.parse_args()


def main():
    args = options()
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    rank = dist.get_rank()
    device = torch.device(args.device, int(os.environ["LOCAL_RANK"]))
    if args.device == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = LanguageModel(args.vocabulary, args.long, args.layers, args.width, args.heads).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)

    data = Windows(args.data, args.long)
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=args.micro_batch, sampler=sampler, num_workers=args.workers, drop_last=True)

    model.train()
    step, epoch = 0, 0
    while step < args.steps:
        sampler.set_epoch(epoch)
        for number, ids in enumerate(loader):
            length = args.short if step < 1000 else args.long
            ids = ids.to(device)
            inputs, targets = ids[:, :length], ids[:, 1 : length + 1]
            average = number % args.accumulate == 0
            with contextlib.nullcontext() if average else model.no_sync():
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
                (loss / args.accumulate).backward()
            if (number + 1) % args.accumulate != 0:
                continue
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            if step % args.print_every == 0 and rank == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step == args.steps:
                break
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
