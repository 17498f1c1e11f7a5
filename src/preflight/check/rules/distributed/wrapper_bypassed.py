"""The inner module of a data-parallel model is called in training, past its wrapper.

## What it does
Finds a call `model.module(x)` of a model in `DistributedDataParallel` whose result a training loss comes from, and one of what `accelerator.unwrap_model(model)` gives.

## Why
The wrapper arranges the averaging of the gradients when it is called.
Past it every rank steps with its own gradients: the replicas drift apart, and the run is as many single runs on a share of the data each.
A model that Accelerate prepared casts in its own forward pass, too: past it, the mixed precision that was asked for is not there.

## Fix
Call the wrapper: `model(x)`.

## When to ignore
When the gradients are averaged by hand.

## References
- PyTorch documentation, "Distributed Data Parallel", internal design: the forward pass prepares the reducer
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.tensors import grad_off
from preflight.check.rule import Rule
from preflight.source.evaluate.library.torch import wrapped
from preflight.source.trace import Event
from preflight.source.values import Obj, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="wrapper-bypassed",
    code="DST024",
    severity="error",
    confidence="certain",
    needs=("training_loop",),
    layer="D",
    tags=("ddp",),
)

_HEAD = """
import torch
from torch import nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("nccl")
model = DDP(nn.Linear(4, 2).cuda(), device_ids=[0])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def update(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

BAD = (
    f"""{_HEAD}
for x, y in loader:
    update(nn.functional.cross_entropy(model.module(x), y))
""",
    f"""{_HEAD}
class Job:
    def __init__(self, net):
        self.net = net
    def loss(self, x, y):
        out = self.net.module(x)
        return nn.functional.cross_entropy(out, y)
job = Job(model)
for x, y in loader:
    update(job.loss(x, y))
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--weight", type=float, default=2.0)
args = parser.parse_args()
def forward(net, x):
    return net.module(x) * args.weight
for x, y in loader:
    update((forward(model, x) - y).pow(2).mean())
""",
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def loss(self, x, y):
        return nn.functional.cross_entropy(self.layer(x), y)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    inner = accelerator.unwrap_model(model)
    accelerator.backward(inner.loss(x, y))
    optimizer.step()
    optimizer.zero_grad()
""",
)

GOOD = (
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")
def save(model, path):
    model = accelerator.unwrap_model(model)
    torch.save(model.state_dict(), path)
def main():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader)
    for x, y in batches:
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    save(model, "model.pt")
    model = accelerator.unwrap_model(model)
    torch.save(model.state_dict(), "last.pt")
main()
""",
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    accelerator.backward(nn.functional.cross_entropy(model(x), y))
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        print(accelerator.unwrap_model(model)(x).sum())
torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
""",
    """
import torch
from torch import nn
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(10, 4), nn.Linear(4, 2)
    def forward(self, h):
        return self.out(h)
    def penalty(self):
        return self.out.weight.pow(2).sum()
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for ids, y in loader:
    inner = accelerator.unwrap_model(model)
    accelerator.backward(nn.functional.cross_entropy(model(inner.embed(ids)), y) + 0.1 * inner.penalty())
    optimizer.step()
    optimizer.zero_grad()
""",
    f"""{_HEAD}
for x, y in loader:
    update(nn.functional.cross_entropy(model(x), y))
with torch.no_grad():
    print(model.module(x))
""",
    f"""{_HEAD}
for x, y in loader:
    loss = nn.functional.cross_entropy(model.module(x), y)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
""",
)
_REDUCING = ("torch.distributed.all_reduce", "torch.distributed.all_reduce_coalesced", "torch.distributed.reduce")


def check(context: Context) -> Iterator[Finding]:
    """Look for calls of inner modules that a loss comes from."""
    yield from _unwrapped(context)
    inner = {
        id(held): made
        for made in context.trace.calls("torch.nn.parallel.DistributedDataParallel")
        if isinstance(held := wrapped(made.result), Obj)
    }
    if not inner or context.trace.calls(*_REDUCING):
        return
    told: set[int] = set()
    behind = [loop.behind_losses for loop in context.reading.loops]
    for event in context.trace.events:
        base = settle(event.receiver) if event.receiver is not None else None
        if event.result is None or id(event.node) in told or not _past(event) or grad_off(event.context):
            continue
        held = base if event.name == "()" else None
        made = inner.get(id(held)) if held is not None else None
        if made is None or not any(id(event.result) in losses for losses in behind):
            continue
        told.add(id(event.node))
        yield _finding(context, event, made)


def _unwrapped(context: Context) -> Iterator[Finding]:
    """Calls of what Accelerate takes out of its wrapper that a loss comes from, where the wrapper would do something."""
    unwraps = [event for event in context.trace.calls(".unwrap_model") if isinstance(event.node, ast.Call)]
    if not unwraps or not (context.parallel.world_size > 1 or _casts(context)):
        return
    calls = {id(event.node): event for event in unwraps}
    names = {
        target.id: calls[id(one.value)]
        for script in context.reading.scripts
        for one in script.nodes(ast.Assign)
        for target in one.targets
        if id(one.value) in calls and isinstance(target, ast.Name)
    }
    behind = [loop.behind_losses for loop in context.reading.loops]
    prepared = [settle(value) for event in unwraps if (value := event.argument(0, "model")) is not None]
    for event in context.trace.calls("()"):
        called = settle(event.receiver) if event.receiver is not None else None
        if any(called is one for one in prepared) and any(id(event.result) in losses for losses in behind):
            return  # the loss comes by the wrapper, and what is taken past it is a part of it, or a penalty
    for event in context.trace.events:
        runs = event.inlined or event.name == "()"  # its parameters may be asked for, as for a penalty
        if event.result is None or not runs or not isinstance(event.node, ast.Call) or grad_off(event.context):
            continue
        function = event.node.func
        base = function.value if isinstance(function, ast.Attribute) else function
        made = names.get(base.id) if isinstance(base, ast.Name) else calls.get(id(base))
        if made is None or event is made or not any(id(event.result) in losses for losses in behind):
            continue
        yield context.finding(
            RULE,
            event,
            "the loss comes from what unwrap_model() gives, past the wrapper: its mixed precision and its averaging of gradients are not there",
            confidence="likely",
            evidence=[Evidence("calls of the prepared model that the loss comes from", 0)],
            related=[(made, "the model is taken out of its wrapper here")],
            fix=Fix(
                title="call the prepared model",
                instruction="compute the loss in forward(), or of what model(...) returns, and call the model that prepare() gave",
                expected="the forward pass is cast, and the ranks average their gradients",
            ),
        )
        return


def _casts(context: Context) -> bool:
    """Whether mixed precision was asked for where the accelerator is made."""
    given = [made.kwargs.get("mixed_precision") for made in context.reading.made("accelerator")]
    return any(value is not None and plain(value) in ("fp16", "bf16", "fp8") for value in given)


def _past(event: Event) -> bool:
    """Whether a call is written ``wrapper.module(...)``."""
    node = event.node
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "module"


def _finding(context: Context, event: Event, made: Event) -> Finding:
    node = event.node
    edit = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        edit = context.replace((event.script, node.func), event.script.segment(node.func.value))
    return context.finding(
        RULE,
        event,
        "the loss comes from the inner module, past DistributedDataParallel: gradients are not averaged, and the ranks drift apart",
        evidence=[Evidence("ranks that a gradient is averaged over", 1)],
        related=[(made, "the model is wrapped here")],
        fix=Fix(
            title="call the wrapper",
            safe=False,
            edits=edits(edit),
            instruction="write model(x) in place of model.module(x)",
            expected="all ranks step with the same gradients",
        ),
    )
