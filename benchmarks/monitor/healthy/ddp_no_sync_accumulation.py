"""DDP with gradient accumulation: micro-batches but the last under no_sync, clipping after the reduction, warm-up."""

# launch: torchrun --standalone --nproc-per-node 2
from argparse import ArgumentParser
from contextlib import nullcontext

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel as DDP

p = ArgumentParser()
p.add_argument("--seed", type=int, default=6)
p.add_argument("--steps", type=int, default=36)
p.add_argument("--size", type=int, default=48)
p.add_argument("--grad-accum", type=int, default=3)
a = p.parse_args()

distributed.init_process_group(backend="gloo")
rank = distributed.get_rank()
master = rank == 0
torch.manual_seed(a.seed)


class CharModel(nn.Module):
    def __init__(self, vocab, d, context):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.mix = nn.Linear(context * d, d)
        self.out = nn.Linear(d, vocab)

    def forward(self, idx, targets):
        h = torch.tanh(self.mix(self.emb(idx).flatten(1)))
        return nn.functional.cross_entropy(self.out(h), targets)


context = 6
text = torch.tensor([ord(c) - 97 for c in "abcadbcbdaeedcbaeabdce" * 80])
model = DDP(CharModel(5, a.size, context))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
rng = torch.Generator().manual_seed(a.seed + 17 * (rank + 1))


def get_batch():
    i = torch.randint(len(text) - context - 1, (16,), generator=rng)
    return torch.stack([text[j : j + context] for j in i]), text[i + context]


for it in range(a.steps):
    for group in optimizer.param_groups:
        group["lr"] = 5e-3 * min(1.0, (it + 1) / 5)
    for micro in range(a.grad_accum):
        sync = micro == a.grad_accum - 1
        with nullcontext() if sync else model.no_sync():
            loss = model(*get_batch()) / a.grad_accum
            loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if master and it % 6 == 0:
        print(f"iter {it}: loss {loss.item() * a.grad_accum:.4f}", flush=True)

distributed.destroy_process_group()
