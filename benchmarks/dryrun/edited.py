"""Holds what a change from outside saves against the same change made by hand in the script.

Usage: python benchmarks/dryrun/edited.py [PATTERN] [-o TABLE.md]

Every case runs a program of ``changes/`` three times on the virtual GPU: as it is, with the change from outside, and with
the change written into its text. The last two have to agree in the peak.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from preflight.catalog.hardware import resolve_gpu
from preflight.dryrun.launch import Job
from preflight.dryrun.server import Server
from preflight.vocabulary.profile import Profile

HERE = Path(__file__).resolve().parent
Edits = tuple[tuple[str, str], ...]

_CHECKPOINT = "from torch.utils.checkpoint import checkpoint\n"
_CHUNKED = """
class Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        total = 0
        for a, b in zip(logits.split(1024), target.split(1024)):
            total = total + F.cross_entropy(a.float(), b, reduction="sum")
        return total / len(target)

    @staticmethod
    def backward(ctx, given):
        logits, target = ctx.saved_tensors
        gradient = torch.empty_like(logits)
        for out, a, b in zip(gradient.split(1024), logits.split(1024), target.split(1024)):
            with torch.enable_grad():
                a = a.detach().float().requires_grad_()
                part = F.cross_entropy(a, b, reduction="sum")
            out.copy_(torch.autograd.grad(part, a, given / len(target))[0])
        return gradient, None

"""
_SHARDED = """
torch.distributed.init_process_group("nccl", rank=0, world_size=8)
from torch.distributed.fsdp import fully_shard
for block in {blocks}:
    fully_shard(block)
fully_shard({top})
"""
_ADAMW, _ADAM = "torch.optim.AdamW(model.parameters(), lr=1e-3)", "torch.optim.Adam(network.parameters(), lr=1e-3)"
_LOSS = "    logits = model(x)\n    loss = F.cross_entropy(logits.view(-1, V), y.view(-1))\n"
_AFTER = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
_COUNTED = "    if count % 2 == 0:\n        optimizer.zero_grad()\n    loss.backward()\n    if count % 2:\n        optimizer.step()\n"
_BLOCKS = "[b for s in network.stages for b in s]"

LANGUAGE: dict[str, tuple[tuple[dict[str, Any], ...], Edits]] = {
    "batch 16 to 96": (
        ({"name": "loader", "before": 16, "value": 96},), (("batch_size = 16", "batch_size = 96"),)),
    "rows 16 to 24": (
        ({"name": "rows", "before": 16, "value": 24},), (("batch_size = 16", "batch_size = 24"),)),
    "fused": (({"name": "fused"},), ((_ADAMW, _ADAMW[:-1] + ", fused=True)"),)),
    "autocast": (
        ({"name": "precision"},),
        ((_LOSS, "    with torch.autocast('cuda', dtype=torch.bfloat16):\n" + _LOSS.replace("    ", "        ")),)),
    "recompute": (
        ({"name": "recompute"},),
        (("import torch\n", "import torch\n" + _CHECKPOINT), ("x = block(x)", "x = checkpoint(block, x, use_reentrant=False)"))),
    "chunked loss": (
        ({"name": "cross_entropy"},),
        (("class Block(", _CHUNKED + "class Block("),
         ("F.cross_entropy(logits.view(-1, V), y.view(-1))", "Chunked.apply(logits.view(-1, V), y.view(-1))"))),
    "accumulation over 2": (
        ({"name": "loader", "before": 16, "value": 8}, {"name": "accumulation", "times": 2}),
        (("batch_size = 16", "batch_size = 8"), ("for x, y in loader:", "for count, (x, y) in enumerate(loader):"), (_AFTER, _COUNTED))),
    "AdamW in 8 bits": (
        ({"name": "optimizer", "to": "adam8bit"},),
        (("import torch\n", "import torch\nimport bitsandbytes\n"), ("torch.optim.AdamW(", "bitsandbytes.optim.AdamW8bit("))),
    "Adafactor": (({"name": "optimizer", "to": "adafactor"},), (("torch.optim.AdamW(", "torch.optim.Adafactor("),)),
    "SGD": (
        ({"name": "optimizer", "to": "sgd"},),
        (("torch.optim.AdamW(model.parameters(), lr=1e-3)", "torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)"),)),
    "FSDP over 8": (
        ({"name": "sharding", "ranks": 8},),
        (("model = Model().cuda()\n", "model = Model().cuda()\n" + _SHARDED.format(blocks="model.blocks", top="model")),)),
    "recompute, autocast, 8 bits": (
        ({"name": "recompute"}, {"name": "precision"}, {"name": "optimizer", "to": "adam8bit"}),
        (("import torch\n", "import torch\nimport bitsandbytes\n" + _CHECKPOINT),
         ("torch.optim.AdamW(", "bitsandbytes.optim.AdamW8bit("),
         ("x = block(x)", "x = checkpoint(block, x, use_reentrant=False)"),
         (_LOSS, "    with torch.autocast('cuda', dtype=torch.bfloat16):\n" + _LOSS.replace("    ", "        ")))),
}  # fmt: skip
PICTURE: dict[str, tuple[tuple[dict[str, Any], ...], Edits]] = {
    "rows 32 to 80": (({"name": "rows", "before": 32, "value": 80},), (("rows = 32", "rows = 80"),)),
    "constant 32 to 80": (
        ({"name": "constant", "path": "", "line": 7, "column": 8, "before": 32, "value": 80},), (("rows = 32", "rows = 80"),)),
    "fused": (({"name": "fused"},), ((_ADAM, _ADAM[:-1] + ", fused=True)"),)),
    "autocast": (
        ({"name": "precision"},),
        (("    loss = criterion(network(pictures), labels)\n",
          "    with torch.autocast('cuda', dtype=torch.bfloat16):\n        loss = criterion(network(pictures), labels)\n"),)),
    "recompute": (
        ({"name": "recompute"},),
        (("import torch\n", "import torch\n" + _CHECKPOINT),
         ("    def forward(self, x):\n        y =", "    def forward(self, x):\n        return checkpoint(self.inner, x, use_reentrant=False)\n\n"
          "    def inner(self, x):\n        y ="))),
    "AdamW in 8 bits": (
        ({"name": "optimizer", "to": "adam8bit"},),
        (("import torch\n", "import torch\nimport bitsandbytes\n"), ("torch.optim.Adam(", "bitsandbytes.optim.Adam8bit("))),
    "FSDP over 8": (
        ({"name": "sharding", "ranks": 8},),
        (("criterion = ", _SHARDED.format(blocks=_BLOCKS, top="network") + "criterion = "),)),
}  # fmt: skip
HUB: dict[str, tuple[tuple[dict[str, Any], ...], Edits]] = {
    "batch 8 to 24": (
        ({"name": "loader", "before": 8, "value": 24},), (("batch_size=8", "batch_size=24"),)),
    "autocast": (({"name": "precision"},), (("max_steps=6", "max_steps=6, bf16=True"),)),
    "recompute": (({"name": "recompute"},), (("max_steps=6", "max_steps=6, gradient_checkpointing=True"),)),
    "accumulation over 2": (
        ({"name": "loader", "before": 8, "value": 4}, {"name": "accumulation", "times": 2}),
        (("batch_size=8", "batch_size=4, gradient_accumulation_steps=2"),)),
    "Adafactor": (
        ({"name": "optimizer", "to": "adafactor"},),
        (("max_steps=6", "max_steps=6, optim_target_modules=None"),
         ("Trainer(model=model,", "Trainer(optimizers=(torch.optim.Adafactor(model.cuda().parameters()), None), model=model,"))),
}  # fmt: skip
_HEAD = (
    "# Changes from outside against the same changes made by hand",
    "",
    "Peaks of allocated memory on a virtual A100 of 80 GB, written by `edited.py`.",
    "",
)
PROGRAMS = {"language": LANGUAGE, "picture": PICTURE, "hub": HUB}


def peak(server: Server, text: str, changes: tuple[dict[str, Any], ...]) -> Profile:
    """Run a program's text."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(text, encoding="utf-8")
        changes = tuple({**c, "path": str(script)} if "path" in c else c for c in changes)
        gpu = resolve_gpu("a100-80gb")
        job = Job(script=str(script), root=folder, gpu=gpu, capacity_bytes=80 << 30, changes=changes)
        seen = server.run(job)
    if seen.outcome not in ("ended", "stopped") or seen.steps < 2:
        raise SystemExit(f"the program ended with {seen.outcome}: {seen.error} {seen.message} {seen.frames[-1:]}")
    if not all(changed.done for changed in seen.changed):
        raise SystemExit(f"a change found nothing to do: {seen.changed}")
    return seen


def edited(text: str, edits: Edits) -> str:
    """Return a program with parts of its text replaced, each of which must be there."""
    for before, after in edits:
        if before not in text:
            raise SystemExit(f"not in the program: {before!r}")
        text = text.replace(before, after)
    return text


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    lines = [
        "| program | change | as it is, MiB | from outside, MiB | by hand, MiB | off |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    print(*lines, sep="\n")
    with Server() as server:
        for name, cases in PROGRAMS.items():
            text = (HERE / "changes" / f"{name}.py").read_text(encoding="utf-8")
            chosen = {case: what for case, what in cases.items() if given.pattern in f"{name}: {case}"}
            before = peak(server, text, ()).peak_bytes if chosen else 0
            for case, (changes, edits) in chosen.items():
                outside, hand = peak(server, text, changes).peak_bytes, peak(server, edited(text, edits), ()).peak_bytes
                off = (outside - hand) / hand
                sizes = " | ".join(f"{size / 2**20:.1f}" for size in (before, outside, hand))
                lines.append(f"| {name} | {case} | {sizes} | {off:+.2%} |")
                print(lines[-1], flush=True)
    if given.output:
        Path(given.output).write_text("\n".join([*_HEAD, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
