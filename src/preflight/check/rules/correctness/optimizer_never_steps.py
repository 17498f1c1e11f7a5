"""Gradients are computed, and no optimizer uses them.

## What it does
Looks for a training loop that calls `backward()` on a loss of a model whose parameters an optimizer holds, where nothing ever steps that optimizer.

## Why
Without `step()` no weight changes: every epoch costs the full price of forward and backward, and the model stays at its initial values.

## Fix
Call `optimizer.step()` after `backward()`.

## When to ignore
When the gradients themselves are the result, as in attribution.
A script that reads `.grad`, or that reads a clock and uses the loss for nothing but its backward pass, is not reported.

## References
- PyTorch documentation, "Optimizing Model Parameters"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.backward_graph import reached
from preflight.check.queries.handed_on import STEPS_NOTHING, handed_on
from preflight.check.queries.parameters import holding_of
from preflight.check.queries.updates import managed
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, options_of
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="optimizer-never-steps",
    code="OPT013",
    severity="error",
    confidence="likely",
    needs=("training_loop", "optimizer", "complete"),
    layer="D",
    tags=("optimizer",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
""",
    """
from torch.optim import Adam as A
import torch.nn as nn
class Trainer:
    def __init__(self):
        self.net = nn.Linear(10, 2)
        self.opt = A(self.net.parameters())
    def update(self, x, y):
        self.opt.zero_grad()
        nn.functional.mse_loss(self.net(x), y).backward()
t = Trainer()
for x, y in loader:
    t.update(x, y)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
sgd = torch.optim.SGD(net.parameters(), lr=args.lr)
schedule = torch.optim.lr_scheduler.StepLR(sgd, 10)
for epoch in range(10):
    for x in data:
        sgd.zero_grad()
        net(x).mean().backward()
    schedule.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
from toolbox import take_step
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    take_step(optimizer)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
per_parameter = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
def hook(p):
    per_parameter[p].step()
    per_parameter[p].zero_grad()
for p in model.parameters():
    p.register_post_accumulate_grad_hook(hook)
for x, y in data:
    nn.functional.cross_entropy(model(x), y).backward()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train = torch.compile(lambda: optimizer.step())
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    train()
""",
    """
import argparse, torch
from torch.optim.optimizer import Optimizer
class Lion(Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad.sign(), alpha=-group["lr"])
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="lion")
args = parser.parse_args()
model = torch.nn.Linear(4, 2)
if args.optimizer == "sgd":
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
elif args.optimizer == "lion":
    optimizer = Lion(model.parameters())
else:
    raise ValueError(args.optimizer)
for x in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
batches = [(torch.randn(8, 10), torch.randint(0, 2, (8,))) for _ in range(100)]
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, (x, y) in enumerate(batches):
    (nn.functional.cross_entropy(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
importance = [torch.zeros_like(p) for p in model.parameters()]
for x, y in data:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    for total, p in zip(importance, model.parameters()):
        total += p.grad ** 2
torch.save(importance, "importance.pt")
""",
    """
import time, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
begin = time.perf_counter()
for _ in range(100):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 10)).square().mean()
    loss.backward()
print("seconds a pass", (time.perf_counter() - begin) / 100)
""",
)

_HOOKS = (
    ".register_post_accumulate_grad_hook",
    ".register_hook",
    "torch.distributed.optim._apply_optimizer_in_backward",
    ".register_step_post_hook",
)
_STEPS = (
    ".step",
    ".step_and_update_lr",
    ".first_step",
    ".second_step",
    ".step_optimizer",
    ".apply_gradients",
    ".minimize",
    ".fit",
)


_CLOCKS = (
    *("time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.process_time"),
    *("timeit.default_timer", "torch.cuda.Event", "torch.profiler.profile", "torch.cuda.max_memory_allocated"),
)


def check(context: Context) -> Iterator[Finding]:
    """Find loops without any step, whose loss reaches what an optimizer holds that is never stepped."""
    if (
        managed(context)
        or context.trace.calls(*_HOOKS)
        or context.reading.made("lightning_trainer")
        or context.reading.made("trainer")
    ):
        return
    if _reads_gradients(context):
        return
    for loop in context.reading.loops:
        if loop.steps or loop.backwards[0].context.shadow or _is_measured(context, loop):
            continue
        optimizer = _idle(context, loop)
        if optimizer is None:
            continue
        edit = (
            context.insert_after(loop.backwards[-1], "optimizer.step()")
            if _named(context, optimizer) == "optimizer"
            else None
        )
        yield context.finding(
            RULE,
            loop.backwards[-1],
            f"gradients are computed and {optimizer.name.rpartition('.')[2]} never steps: no weight changes",
            evidence=[
                Evidence("backward in the loop", len(loop.backwards)),
                Evidence("steps of the optimizer in the script", 0),
            ],
            fix=Fix(
                title="call step() after backward()",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction="call the optimizer's step() after backward()",
                expected="the weights are updated",
            ),
            related=[(optimizer, "the optimizer is made here")],
        )


def _reads_gradients(context: Context) -> bool:
    """Whether a script reads gradients: these may be what it is after."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)
        for script in context.reading.scripts
        if ".grad" in "\n".join(script.lines)
        for node in ast.walk(script.tree)
    )


def _is_measured(context: Context, loop: TrainingLoop) -> bool:
    """Whether a clock is read, and no loss of a loop is used but for its backward pass: what that takes is the result."""
    if not context.trace.calls(*_CLOCKS):
        return False
    for event in loop.backwards:
        call = event.node
        loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        if isinstance(loss, ast.Name):
            named = (node for node in ast.walk(event.script.tree) if isinstance(node, ast.Name))
            if sum(node.id == loss.id and isinstance(node.ctx, ast.Load) for node in named) > 1:
                return False
        elif not isinstance(loss, ast.Call):
            return False
    return True


def _named(context: Context, optimizer: Obj) -> str | None:
    found = context.reading.machine.module.namespace.get("optimizer")
    return "optimizer" if found is not None and any(o is optimizer for o in options_of(found)) else None


def _idle(context: Context, loop: TrainingLoop) -> Obj | None:
    """An optimizer that holds what the loss reaches, is made by the script, and is handed to nothing that may step it."""
    found = reached(loop.losses())
    optimizers = context.reading.made("optimizer")
    if any(_may_step(context, event) for event in context.trace.events):
        return None
    for optimizer in optimizers:
        held = holding_of(context.reading, optimizer).members
        if held & found.keys() and not handed_on(context, optimizer, STEPS_NOTHING, (".append", ".zero_grad")):
            return optimizer
    return None


def _may_step(context: Context, event: Event) -> bool:
    """Whether a call may be an optimizer's step; of a class of the project the base tells, as ``Lion.step``."""
    if event.name in _STEPS:
        return context.roles.of(event.receiver) in (None, "optimizer", "scaler") and not _other(event)
    owner = event.args[0] if event.inlined and event.args else None
    return "." + event.name.rpartition(".")[2] in _STEPS and context.roles.of(owner) == "optimizer"


def _other(event: Event) -> bool:
    """Steps of environments and profilers: things whose making shows that they are not optimizers."""
    return all(
        isinstance(o, Obj) and o.kind == "call" and o.name.startswith(("gym", "torch.profiler", "wandb"))
        for o in options_of(event.receiver)
    )
