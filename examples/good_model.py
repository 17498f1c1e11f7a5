"""Pretrain a language model of 124 million parameters on one GPU, configured as it should be.

The data is a flat file of token numbers (two bytes each) for training, and another for validation.
"""

import argparse
import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 50304
CONTEXT = 1024
WIDTH = 768
HEADS = 12
LAYERS = 12


class Tokens(Dataset):
    """Windows of a memory-mapped file."""

    def __init__(self, path):
        self.path = path
        self.windows = (os.path.getsize(path) // 2 - 1) // CONTEXT

    def __len__(self):
        return self.windows

    def __getitem__(self, index):
        tokens = np.memmap(self.path, dtype=np.uint16, mode="r")
        start = index * CONTEXT
        window = torch.from_numpy(tokens[start : start + CONTEXT + 1].astype(np.int64))
        return window[:-1], window[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    total = torch.zeros((), device=device)
    for ids, targets in loader:
        ids, targets = ids.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids)
        total += F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
    model.train()
    return total.item() / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="train.bin")
    parser.add_argument("--validation", default="validation.bin")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--warmup", type=int, default=2_000)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--resume", help="a checkpoint of an earlier run")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    settings = {"batch_size": args.batch_size, "num_workers": 8, "pin_memory": True, "persistent_workers": True}
    loader = DataLoader(Tokens(args.train), shuffle=True, drop_last=True, **settings)
    validation = DataLoader(Tokens(args.validation), **settings)

    model = LanguageModel().to(device)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=True)

    def scale(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        done = min(1.0, (step - args.warmup) / max(1, args.steps - args.warmup))
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * done))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)

    step = 0
    if args.resume:
        state = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]

    compiled = torch.compile(model)
    model.train()
    while step < args.steps:
        for ids, targets in loader:
            ids, targets = ids.to(device, non_blocking=True), targets.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = compiled(ids)
                loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step}: loss {loss.item():.3f}")
            if step % 2000 == 0:
                print(f"step {step}: validation loss {evaluate(model, validation, device):.3f}")
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**state, "schedule": schedule.state_dict(), "step": step}, "checkpoint.pt")
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
