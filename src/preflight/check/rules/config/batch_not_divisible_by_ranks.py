"""The global batch cannot be divided among the ranks.

## What it does
Follows the batch size of loaders and the number of accumulated batches back to a division by the number of ranks, and looks whether something is left over.
`Accelerator(split_batches=True)` is checked in the same way.

## Why
`int(100 / 8)` gives 12 samples to each of 8 ranks: a step sees 96 samples, not 100, and the schedule and the learning rate were chosen for 100.
With fewer samples than ranks the quotient is 0: no batch at all.
Accelerate refuses to start when it is to split a batch that the processes do not divide.

## Fix
Choose a global batch that is a multiple of ranks x micro-batch, and assert it.

## When to ignore
When the exact batch does not matter for the comparison at hand.

## References
- Accelerate documentation, `DataLoaderConfiguration.split_batches`
- Goyal et al., "Accurate, Large Minibatch SGD", 2017: the learning rate belongs to the global batch
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.loaders import given, torch_loaders
from preflight.check.rule import Example, Rule
from preflight.source.facts.batch import modulus
from preflight.source.trace import provenance
from preflight.source.training import guarded_more, same
from preflight.source.values import RANKS_TOLD, Known, Obj, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="batch-not-divisible-by-ranks",
    code="CFG002",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("distributed", "configuration"),
)

_TORCHRUN = "torchrun --nproc_per_node 8 train.py"
_OPTIONS = """
import argparse, os, torch
import torch.distributed as dist
from torch.utils.data import DataLoader as Loader
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=%d)
args = parser.parse_args()
dist.init_process_group("nccl")
"""
_ACCELERATE = """
import accelerate
import torch
accelerator = accelerate.Accelerator(%s)
loader = torch.utils.data.DataLoader(data, batch_size=%d)
model, loader = accelerator.prepare(torch.nn.Linear(4, 2), loader)
"""
BAD = (
    Example(
        _OPTIONS % 100
        + "loader = Loader(data, batch_size=int(args.batch_size / dist.get_world_size()), num_workers=4)\n",
        launch=_TORCHRUN,
    ),
    Example(
        _OPTIONS % 4
        + """
def share(total):
    return total // int(os.environ["WORLD_SIZE"])
loader = Loader(data, share(args.batch_size))
""",
        gpus=8,
    ),
    Example(
        _OPTIONS % 480
        + """
model = torch.nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
micro = 32
accumulate = args.batch_size // (micro * dist.get_world_size())
for step, (x, y) in enumerate(Loader(data, micro)):
    torch.nn.functional.cross_entropy(model(x), y).backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        launch=_TORCHRUN,
    ),
    Example(
        _OPTIONS % 128 + "loader = Loader(data, batch_size=int(args.batch_size / dist.get_world_size()))\n",
        launch=_TORCHRUN + " --batch-size 60",
    ),
    Example(_ACCELERATE % ("split_batches=True", 100), launch="accelerate launch --num_processes 8 train.py"),
)

GOOD = (
    Example(
        _OPTIONS % 128 + "loader = Loader(data, batch_size=int(args.batch_size / dist.get_world_size()))\n",
        launch=_TORCHRUN,
    ),
    Example(_OPTIONS % 100 + "loader = Loader(data, batch_size=args.batch_size)\n", launch=_TORCHRUN),
    _OPTIONS % 100 + "loader = Loader(data, batch_size=args.batch_size // dist.get_world_size())\n",
    Example(
        _ACCELERATE % ("split_batches=True", 64) + "held = torch.utils.data.DataLoader(data, batch_size=100)\n",
        launch="accelerate launch --num_processes 8 train.py",
    ),
    Example(
        _OPTIONS % 128 + "loader = Loader(data, batch_size=int(args.batch_size / dist.get_world_size()))\n",
        launch=_TORCHRUN + " --batch-size 64",
    ),
    Example(
        _OPTIONS % 100
        + """
assert args.batch_size % dist.get_world_size() == 0
loader = Loader(data, batch_size=args.batch_size // dist.get_world_size())
""",
        launch=_TORCHRUN,
    ),
    Example(_ACCELERATE % ("", 100), launch="accelerate launch --num_processes 8 train.py"),
)


def check(context: Context) -> Iterator[Finding]:
    """Find divisions by the number of ranks that leave something over."""
    for value in (*_batches(context), *_accumulations(context)):
        for part in provenance(value, 40):
            found = _quotient(part)
            if found is not None and not _refused(part):
                yield _finding(context, *found)
                break
    yield from _split(context)


def _batches(context: Context) -> Iterator[Value]:
    seen: set[int] = set()
    for loader in torch_loaders(context):
        size = given(loader, "batch_size")
        if size is None or (loader.context is not None and loader.context.shadow) or id(settle(size)) in seen:
            continue
        seen.add(id(settle(size)))
        yield size


def _accumulations(context: Context) -> Iterator[Value]:
    for loop in context.reading.loops:
        if loop.frame.shadow:
            continue
        counted = settle(loop.micro.value) if loop.micro is not None and loop.micro.value is not None else None
        if isinstance(counted, Obj) and counted.name == "builtins.range" and len(counted.args) == 1:
            yield counted.args[0]
        for step in loop.steps[:1]:
            for frame in guarded_more(step, loop.frame):
                found = modulus(frame.value)
                if found is not None:
                    yield found


def _quotient(part: Value) -> tuple[Known, int, int] | None:
    """The quotient, total and divisor of a division by the number of ranks that leaves a remainder."""
    node = part.site.node if part.site is not None else None
    if (
        not isinstance(part, Known)
        or not isinstance(node, ast.BinOp)
        or not isinstance(node.op, (ast.Div, ast.FloorDiv))
    ):
        return None
    if len(part.parents) != 2:
        return None
    total, divisor = (plain(p) for p in part.parents)
    if not isinstance(total, int) or not isinstance(divisor, int) or total <= 0 or divisor < 2 or total % divisor == 0:
        return None
    ranks = any(isinstance(p, Known) and p.how in RANKS_TOLD for p in provenance(part.parents[1], 20))
    return (part, total, divisor) if ranks else None


def _refused(part: Value) -> bool:
    """Whether the script itself stops where something is left over: ``assert total % ranks == 0``."""
    if part.site is None:
        return False
    for node in ast.walk(part.site.script.tree):
        stops = isinstance(node, ast.Assert) or (isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise))
        if stops and any(isinstance(inner, ast.Mod) for inner in ast.walk(node.test)):  # type: ignore[attr-defined]
            return True
    return False


def _finding(context: Context, place: Known, total: int, divisor: int) -> Finding:
    divided = settle(place.parents[1])
    each = total // divisor
    done = each * divisor
    alone = isinstance(divided, Known) and divided.how in RANKS_TOLD and not divided.parents
    alone = alone or divisor == context.fact("world_size")
    unit = "ranks" if alone else "samples of all ranks"
    told = (
        f"a batch of {total} is divided by {divisor} {unit}: {each} x {divisor} = {done} samples are seen in each step"
        if each
        else f"a batch of {total} is divided by {divisor} {unit}, which gives 0"
    )
    return context.finding(
        RULE,
        place,
        told,
        severity="warning" if each else "error",
        evidence=[
            Evidence("global batch asked for", total, "samples"),
            Evidence(
                "left out of each step",
                total - done,
                "samples",
                "derived",
                f"{total} - {each} x {divisor} = {total - done}",
            ),
        ],
        fix=Fix(
            title=f"use a global batch that is a multiple of {divisor}",
            instruction=f"for example {max(done, divisor)} or {done + divisor}",
            expected="a step sees the batch that was asked for",
        ),
    )


def _split(context: Context) -> Iterator[Finding]:
    """Accelerate cuts each batch of the loader into one piece per process."""
    world = context.fact("world_size")
    wanted = any(
        context.value(a.kwargs.get("split_batches")) is True for a in context.reading.made("accelerator")
    ) or any(
        context.value(e.kwargs.get("split_batches")) is True
        for e in context.trace.calls_under("accelerate.")
        if e.name.endswith(".DataLoaderConfiguration") and not e.context.shadow
    )
    if not wanted or not isinstance(world, int) or world < 2:
        return
    prepared = [e for e in context.trace.calls(".prepare", ".prepare_data_loader") if not e.context.shadow]
    for loader in torch_loaders(context):
        size = context.value(given(loader, "batch_size"))
        if not any(same(a, loader) for e in prepared for a in (*e.args, *e.kwargs.values())):
            continue
        if isinstance(size, int) and size % world and not (loader.context is not None and loader.context.shadow):
            yield context.finding(
                RULE,
                loader,
                f"split_batches cuts each batch of {size} into {world} pieces, which leaves {size % world}: Accelerate refuses to start",
                severity="error",
                evidence=[Evidence("batch of the loader", size, arithmetic=f"{size} mod {world} = {size % world}")],
                fix=Fix(
                    title=f"make the batch a multiple of {world}",
                    instruction=f"use {size // world * world or world} or {(size // world + 1) * world}",
                    expected="each process gets the same number of samples",
                ),
            )
