"""Two-dimensional parallelism on four ranks: tensor parallel with sequence parallel norms inside, fully_shard outside."""
# launch: torchrun --standalone --nproc-per-node 4

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class MLP(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w1, self.w3, self.w2 = (
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(d, 2 * d, bias=False),
            nn.Linear(2 * d, d, bias=False),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.RMSNorm(d)
        self.mlp = MLP(d)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, vocab, d, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(depth))
        self.norm = nn.RMSNorm(d)
        self.output = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def apply_tp(model, tp):
    parallelize_module(
        model,
        tp,
        {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for layer in model.layers:
        parallelize_module(
            layer,
            tp,
            {
                "norm": SequenceParallel(),
                "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "mlp.w1": ColwiseParallel(),
                "mlp.w3": ColwiseParallel(),
                "mlp.w2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=16)
    args = parser.parse_args()
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(args.seed)
    vocab = 16
    model = Model(vocab, args.size, 2)
    apply_tp(model, mesh["tp"])
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, foreach=False)

    # ranks of one tensor-parallel group read the same batch, groups read different ones
    rng = torch.Generator().manual_seed(args.seed + 100 + mesh["dp"].get_local_rank())
    for step in range(args.steps):
        start = torch.randint(0, vocab, (8, 1), generator=rng)
        ids = (start + 5 * torch.arange(9)) % vocab
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


main()
