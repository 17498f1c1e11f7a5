"""A gradient scaler steps without `update()`, or unscales twice.

## What it does
Looks for `scaler.step(optimizer)` without a call of `scaler.update()` anywhere, and for `scaler.unscale_` that is called more than once between two updates.

## Why
`update()` adjusts the scale and makes the scaler ready for the next step.
Without it, the second `scaler.step` raises `RuntimeError: step() has already been called since the last update()`; a second `unscale_` of one optimizer raises likewise.

## Fix
Call `scaler.update()` once per step, after the last `scaler.step`; call `unscale_` once per step.

## When to ignore
Never, when the scaler is enabled.

## References
- PyTorch documentation, `torch.amp.GradScaler`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.parameters import stepped
from preflight.check.queries.precision import SCALERS, enabled
from preflight.check.queries.updates import Update, accumulation, guards, happens_with, updates
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import same
from preflight.source.values import Func, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scaler-not-updated",
    code="AMP003",
    severity="error",
    confidence="certain",
    needs=("training_loop", "scaler", "complete"),
    layer="D",
    tags=("precision",),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for x, y in data:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
""",
    """
import torch
import torch.nn as nn
from torch.amp import GradScaler as Scaler
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = Scaler("cuda")
    def update(self, x):
        self.scaler.scale(self.net(x).mean()).backward()
        self.scaler.step(self.opt)
        self.opt.zero_grad()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=4)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
scaler = torch.cuda.amp.GradScaler()
for i, x in enumerate(data):
    scaler.scale(net(x).mean() / args.accumulate).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if (i + 1) % args.accumulate == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
""",
    """
import torch
from elsewhere import Encoder
encoder = Encoder()
scaler = torch.amp.GradScaler("cuda")
for x in data:
    encoder.optimizer().zero_grad()
    scaler.scale(encoder(x).mean()).backward()
    scaler.step(encoder.optimizer())
""",
    """
import torch
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
scaler = torch.amp.GradScaler("cuda")
step = scaler.step
for x in data:
    opt.zero_grad()
    scaler.scale(net(x).mean()).backward()
    step(opt)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
def finish(s):
    s.update()
for x, y in data:
    optimizer.zero_grad()
    scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    finish(scaler)
""",
    """
import torch
from torch import nn
a, b = nn.Linear(8, 8), nn.Linear(8, 1)
one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
scaler = torch.amp.GradScaler("cuda")
for x in data:
    one.zero_grad(); two.zero_grad()
    scaler.scale(b(a(x)).mean()).backward()
    scaler.unscale_(one)
    scaler.unscale_(two)
    scaler.step(one)
    scaler.step(two)
    scaler.update()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler(enabled=False)
for x, y in data:
    optimizer.zero_grad()
    scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
    scaler.step(optimizer)
""",
    """
import torch
from elsewhere import Loop
class Training(Loop):
    def __init__(self, network, optimizer):
        super().__init__()
        self.network, self.optimizer, self.scaler = network, optimizer, torch.amp.GradScaler("cuda")
    def epoch(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            self.scaler.scale(self.network(x).mean()).backward()
            self.scaler.step(self.optimizer)
            self.finish_step()
""",
    """
import torch
network = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
def first_batch(loader):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        scaler.scale(network(x).mean()).backward()
        scaler.step(optimizer)
        break
def each_scale(scales, x):
    for scale in scales:
        scaler = torch.amp.GradScaler("cuda", init_scale=scale)
        optimizer.zero_grad()
        scaler.scale(network(x).mean()).backward()
        scaler.step(optimizer)
""",
)

_NO_SCALERS = ("torch.", "builtins.", "abc.", "typing.")
"""Where classes come from that never update a scaler of their heirs."""


def check(context: Context) -> Iterator[Finding]:
    """Look at each scaler's steps, updates and unscalings."""
    for update in updates(context):
        for step in update.steps:
            scaler = next((o for o in options_of(step.receiver) if isinstance(o, Obj) and o.name in SCALERS), None)
            if scaler is None or enabled(scaler) is False:
                continue
            if _never_updated(context, step, scaler):
                yield _not_updated(context, step)
            else:
                yield from _twice(context, update, step, scaler)
            break
    yield from _of_unknown(context)


def _of_unknown(context: Context) -> Iterator[Finding]:
    """Steps without update() of optimizers whose making is out of sight: what a scaler needs does not depend on it."""
    for loop in context.reading.loops:
        for step in loop.steps:
            scaler = settle(step.receiver) if step.receiver is not None else None
            if not isinstance(scaler, Obj) or scaler.name not in SCALERS or stepped(context.reading, step) is not None:
                continue
            if enabled(scaler) is not False and not context.trace.on(scaler, "update"):
                if _never_updated(context, step, scaler):
                    yield _not_updated(context, step)
                break


def _never_updated(context: Context, step: Event, scaler: Obj) -> bool:
    """Whether the same scaler steps again, and nothing that was seen or is out of sight updates it in between."""
    if context.trace.on(scaler, "update") or _given_away(context, scaler) or _within_reach_of_others(step):
        return False
    loops, made = step.context.loops(), context.reading.event_of(scaler)
    if not loops or (made is not None and made.context.within(loops[0])):
        return False  # a new scaler for each pass steps once
    body = getattr(loops[0].node, "body", [])
    return len(loops) > 1 or not body or not isinstance(body[-1], ast.Break | ast.Return)


def _within_reach_of_others(step: Event) -> bool:
    """Whether the scaler is an attribute in a class whose bases are out of sight: their methods may update it."""
    func = step.node.func if isinstance(step.node, ast.Call) else None
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Attribute):
        return False
    functions = (f.value for f in step.context.frames() if f.kind == "call" and isinstance(f.value, Func))
    bases = (base for function in functions if function.owner is not None for base in function.owner.external_bases())
    return any(not base.startswith(_NO_SCALERS) for base in bases)


def _given_away(context: Context, scaler: Obj) -> bool:
    for event in context.trace.events:
        hidden = not event.inlined and not event.name.startswith(("builtins.", "torch."))
        if hidden and any(same(v, scaler) for v in (*event.args, *event.kwargs.values())):
            return True
    return False


def _not_updated(context: Context, step: Event) -> Finding:
    func = step.node.func if isinstance(step.node, ast.Call) else None
    named = isinstance(func, ast.Attribute)  # else the method goes by a name of its own
    name = step.script.segment(func.value) if isinstance(func, ast.Attribute) else "scaler"
    edit = context.insert_after(step, f"{name}.update()") if named else None
    return context.finding(
        RULE,
        step,
        f"{name}.step() is never followed by {name}.update(): the second step raises an error",
        evidence=[Evidence("calls of update()", 0)],
        fix=Fix(
            title=f"call {name}.update() after the step",
            safe=False,
            edits=edits(edit),
            instruction=f"call {name}.update() once per step, after the last {name}.step()",
            expected="the scale adapts, and the next step is accepted",
        ),
    )


def _twice(context: Context, update: Update, step: Event, scaler: Obj) -> Iterator[Finding]:
    """Unscalings that happen at each micro-batch, or several of them for one step."""
    frame = update.loop.frame
    mine = [
        e for e in update.loop.unscales if same(e.receiver, scaler) and e.args and same(e.args[0], update.optimizer)
    ]
    held = accumulation(update)
    for index, event in enumerate(mine):
        inside = (
            held is not None
            and held.count != 1
            and (event.context.within(held.frame) if held.kind == "loop" else not guards(event, frame))
        )
        updated = [u for u in context.trace.on(scaler, "update") if u.context.within(frame)]
        if inside and held is not None and all(guards(u, frame) or held.kind == "loop" for u in updated):
            text = "unscale_ is called for every micro-batch of an accumulated step: the second call before update() raises an error"
        else:
            again = [
                e
                for e in mine[index + 1 :]
                if happens_with(event, e, frame) and not any(event.number < u.number < e.number for u in updated)
            ]
            if not again or not updated:
                continue
            text = "unscale_ is called twice for one optimizer before update(): the second call raises an error"
            event = again[0]
        yield context.finding(
            RULE,
            event,
            text,
            confidence="likely",
            evidence=[Evidence("unscalings in the loop", len(mine)), Evidence("updates in the loop", len(updated))],
            fix=Fix(
                title="unscale once per step",
                safe=False,
                instruction="call unscale_ where the step is, once",
                expected="gradients are divided by the scale once",
            ),
            related=[(step, "the scaler steps here")],
        )
        return
