"""The flag that asks for averaged gradients is set between forward and backward, but the wrapper looks at it in the forward pass: not the last micro-step is averaged, but the first."""
# source: https://github.com/karpathy/build-nanogpt/pull/30
# first effect: step 0
# names: module.wte.weight, module.lm_head.weight, require_backward_grad_sync, DistributedDataParallel
# launch: torchrun --nproc-per-node 2
# family: replicas
# detectable: yes replicas differ after the step, and the backward pass before it made no all-reduce

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class GPT(nn.Module):
    def __init__(self, vocab=48, dim=32, context=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(context, dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ln_1, self.ln_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx, targets):
        t = idx.shape[1]
        x = self.wte(idx) + self.wpe(torch.arange(t))
        h = self.ln_1(x)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


class DataLoaderLite:
    def __init__(self, seed, rank, world):
        g = torch.Generator().manual_seed(seed)
        words = torch.randint(0, 48, (12, 5), generator=g)
        self.tokens = words[torch.randint(0, 12, (2000,), generator=g)].flatten()
        self.rank, self.world, self.position = rank, world, 0

    def next_batch(self, b=8, t=16):
        start = (self.position * self.world + self.rank) * b * t % (len(self.tokens) - b * t - 1)
        self.position += 1
        buf = self.tokens[start : start + b * t + 1]
        return buf[:-1].view(b, t), buf[1:].view(b, t)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(args.seed)
    model = DDP(GPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    loader = DataLoaderLite(args.seed, rank, world)
    grad_accum_steps = 3
    for step in range(args.steps):
        optimizer.zero_grad()
        loss_accum = 0.0
        for micro_step in range(grad_accum_steps):
            x, y = loader.next_batch()
            last = micro_step == grad_accum_steps - 1
            if args.fixed:
                model.require_backward_grad_sync = last
            _, loss = model(x, y)
            loss = loss / grad_accum_steps
            loss_accum += loss.item()
            if not args.fixed:
                model.require_backward_grad_sync = last
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step:4d} | loss: {loss_accum:.6f}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
