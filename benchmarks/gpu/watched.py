"""Trains rightly in one of the ways that only a GPU knows: python watched.py KIND.

``watch.py`` runs every kind with and without the recorder. The last line holds the bits of the last loss.
``plain`` also counts, by file and thread, where the host waited for the GPU. On standard error: the peak of memory.
"""

import os
import sys
import threading
import warnings
from collections import Counter
from contextlib import nullcontext
from itertools import chain

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 40
KINDS = (
    "plain",
    "autocast_bf16",
    "autocast_fp16",
    "compiled",
    "compiled_step",
    "graphed",
    "channels_last",
    "recurrent",
    "prefetched",
    "checkpointed",
    "ddp",
    "fsdp2",
    "loader",
    "accumulated",
    "evaluated",
    "half_weights",
    "loader_epochs",
    "graphed_parts",
    "overhead_reduced",
    "memory_recovered",
    "offloaded",
    "averaged",
)


class Net(nn.Module):
    """A small transformer over tokens."""

    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 256)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True, norm_first=True) for _ in range(4)
        )
        self.norm = nn.LayerNorm(256)
        self.head = nn.Linear(256, 512)
        self.checkpointed = checkpointed

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1), device=ids.device)
        x = self.embed(ids)
        for layer in self.layers:
            if self.checkpointed:
                x = torch.utils.checkpoint.checkpoint(layer, x, mask, use_reentrant=False)
            else:
                x = layer(x, mask)
        return self.head(self.norm(x))


class Pictures(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for inside, outside in ((3, 32), (32, 64), (64, 128)):
            parts += [nn.Conv2d(inside, outside, 3, 2, 1), nn.BatchNorm2d(outside), nn.ReLU()]
        self.body = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Recurrent(nn.Module):
    """A language model of LSTM layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(512, 256), nn.Linear(256, 512)
        self.lstm = nn.LSTM(256, 256, 2, dropout=0.2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(ids))[0])


def tokens(table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw sequences in which each token decides the next."""
    start = torch.randint(0, 512, (16,), device=table.device)
    rows = [start]
    for _ in range(64):
        rows.append(table[rows[-1]])
    drawn = torch.stack(rows, dim=1)
    return drawn[:, :-1], drawn[:, 1:]


def loss_of(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids).flatten(0, 1).float(), labels.flatten())


def text(kind: str) -> torch.Tensor:
    """Train on sequences."""
    model: nn.Module = (Recurrent() if kind == "recurrent" else Net(kind == "checkpointed")).cuda()
    table = torch.randperm(512, device="cuda")
    if kind == "half_weights":
        model = model.bfloat16()
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    if kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    run = torch.compile(model, fullgraph=True) if kind == "compiled" else model
    if kind == "overhead_reduced":
        run = torch.compile(model, mode="reduce-overhead")
    if kind == "graphed_parts":
        sample = torch.zeros(16, 64, 256, device="cuda"), torch.zeros(64, 64, device="cuda")
        model.layers = nn.ModuleList(
            torch.cuda.make_graphed_callables(layer, (sample[0].clone().requires_grad_(), sample[1]))
            for layer in model.layers
        )
    average = torch.optim.swa_utils.AveragedModel(model) if kind == "averaged" else None
    keeps = torch.autograd.graph.save_on_cpu(pin_memory=True) if kind == "offloaded" else nullcontext()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=kind == "compiled")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=STEPS + 1)
    scaler = torch.amp.GradScaler("cuda", enabled=kind == "autocast_fp16")
    dtype = {"autocast_bf16": torch.bfloat16, "autocast_fp16": torch.float16}.get(kind)
    micro = 4 if kind == "accumulated" else 1
    for step in range(STEPS):
        for _ in range(micro):
            ids, labels = tokens(table)
            if kind == "memory_recovered" and step == 5:
                try:
                    loss_of(run, ids.repeat(200000, 1), labels.repeat(200000, 1)).backward()
                except torch.OutOfMemoryError:
                    optimizer.zero_grad(set_to_none=True)
            autocast = torch.autocast("cuda", dtype=dtype or torch.bfloat16, enabled=dtype is not None)
            with autocast, keeps:
                loss = loss_of(run, ids, labels) / micro
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if average is not None:
            average.update_parameters(model)
        if kind == "evaluated" and step % 10 == 9:
            model.eval()
            with torch.inference_mode():
                print(f"held out {loss_of(model, *tokens(table)).item():.4f}")
            model.train()
        if step % 10 == 9:
            print(f"step {step + 1} loss {loss.item() * micro:.4f}")
    return loss


def compiled_step() -> torch.Tensor:
    """The optimizer's step is compiled as well."""
    model = Net().cuda()
    table = torch.randperm(512, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    @torch.compile
    def step_of(ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = loss_of(model, ids, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(STEPS // 2):
        loss = step_of(*tokens(table))
    return loss.detach()


def graphed() -> torch.Tensor:
    """A whole step is captured once, and replayed."""
    model = Pictures().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    inputs = torch.randn(32, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 10, (32,), device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    for _ in range(STEPS):
        drawn = torch.randint(0, 10, (32,), device="cuda")
        inputs.copy_(torch.randn_like(inputs) + drawn[:, None, None, None])
        labels.copy_(drawn)
        graph.replay()
    return loss


def pictures(kind: str) -> torch.Tensor:
    """Train on pictures."""
    from torch.utils.data import DataLoader, TensorDataset

    layout = torch.channels_last if kind == "channels_last" else torch.contiguous_format
    model = Pictures().cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    labels = torch.randint(0, 10, (32 * STEPS,))
    data = TensorDataset(torch.randn(32 * STEPS, 3, 32, 32) + labels[:, None, None, None] / 3, labels)
    workers = 2 if kind.startswith("loader") else 0
    epochs = 3 if kind == "loader_epochs" else 1
    loader = DataLoader(
        data,
        32,
        shuffle=True,
        num_workers=workers,
        persistent_workers=epochs > 1,
        pin_memory=True,
        drop_last=True,
    )
    side = torch.cuda.Stream()

    def up(batch: list[torch.Tensor]) -> list[torch.Tensor]:
        if kind != "prefetched":
            return [part.cuda(non_blocking=True) for part in batch]
        with torch.cuda.stream(side):
            return [part.cuda(non_blocking=True) for part in batch]

    batches = chain.from_iterable(loader for _ in range(epochs))
    coming = up(next(batches))
    while coming is not None:
        torch.cuda.current_stream().wait_stream(side)
        x, y = coming
        for part in coming:
            part.record_stream(torch.cuda.current_stream())
        following = next(batches, None)
        coming = up(following) if following is not None else None
        loss = F.cross_entropy(model(x.to(memory_format=layout)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


WAITS: Counter[str] = Counter()


def waited(message: object, category: object, filename: str, line: int, *_: object) -> None:
    """Count a wait of the host where it happens."""
    if "synchron" in str(message):
        main = threading.current_thread() is threading.main_thread()
        WAITS[f"{'/'.join(filename.split(os.sep)[-4:])}:{line} {'main' if main else 'another'} thread"] += 1


def main() -> None:
    kind = sys.argv[1]
    torch.manual_seed(0)
    if kind == "plain":
        warnings.simplefilter("always")
        warnings.showwarning = waited
        torch.cuda.set_sync_debug_mode("warn")
    torch.use_deterministic_algorithms(True, warn_only=True)
    if kind in ("ddp", "fsdp2"):
        os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ["MASTER_PORT"] = str(29500 + KINDS.index(kind))
        torch.cuda.set_device(0)
        torch.distributed.init_process_group("nccl")
    if kind == "compiled_step":
        loss = compiled_step()
    elif kind == "graphed":
        loss = graphed()
    elif kind in ("channels_last", "prefetched", "loader", "loader_epochs"):
        loss = pictures(kind)
    else:
        loss = text(kind)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for place, count in sorted(WAITS.items()):
        print(f"waits {place}: {count}", file=sys.stderr)
    print(f"peak {torch.cuda.max_memory_allocated()}", file=sys.stderr)
    print(f"last loss {float(loss.item()).hex()}")


if __name__ == "__main__":
    main()
