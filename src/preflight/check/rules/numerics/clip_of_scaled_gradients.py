"""Gradients are clipped while they are still scaled.

## What it does
Looks for gradient clipping between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` without `scaler.unscale_(optimizer)` before it.

## Why
At that point every gradient is multiplied by the scale, 65,536 at first, so a limit of 1.0 is in truth a limit of 1.0 / 65,536.
After `step` divides by the scale, updates are tiny, and they change size whenever the scale does.

## Fix
Call `scaler.unscale_(optimizer)` before clipping; `scaler.step` notices and does not divide again.

## When to ignore
When the limit itself is multiplied by `scaler.get_scale()`.

## References
- PyTorch documentation, "Automatic Mixed Precision examples": gradient clipping
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.precision import enabled, is_scaler, scaled_by, scaler_setting
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop, same, same_guards
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="clip-of-scaled-gradients",
    code="AMP002",
    severity="error",
    confidence="likely",
    needs=("training_loop", "scaler"),
    layer="D",
    tags=("precision", "clipping"),
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
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
    """
import torch
import torch.nn as nn
from torch.amp import GradScaler as Scaler, autocast
from torch.nn.utils import clip_grad_value_ as clip
class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 4)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.scaler = Scaler("cuda")
    def update(self, x):
        with autocast("cuda", dtype=torch.float16):
            loss = self.net(x).mean()
        self.scaler.scale(loss).backward()
        clip(self.net.parameters(), 0.5)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
t = Trainer()
for x in data:
    t.update(x)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--clip", type=float, default=1.0)
args = parser.parse_args()
net = torch.nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters())
if args.amp:
    scaler = torch.cuda.amp.GradScaler()
for x in data:
    opt.zero_grad()
    loss = net(x).mean()
    if args.amp:
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        scaler.step(opt)
        scaler.update()
    else:
        loss.backward()
        opt.step()
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
for i, (x, y) in enumerate(data):
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(x), y) / 4
    scaler.scale(loss).backward()
    if (i + 1) % 4 == 0:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
""",
    """
import torch
from torch import nn
use_amp = bool(input())
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler() if use_amp else None
for x, y in data:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    if scaler is not None:
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.cuda.amp.GradScaler()
def clip():
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
for x, y in data:
    optimizer.zero_grad()
    scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
    clip()
    scaler.step(optimizer)
    scaler.update()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find clipping behind a scaled backward, in front of the scaler's step, with no unscale_ in between."""
    for loop in context.reading.loops:
        for backward in loop.backwards:
            scaler = scaled_by(context, backward)
            if scaler is None or enabled(scaler) is False:
                continue
            for clip in loop.clips:
                step = _step_after(context, loop, clip, scaler)
                if (
                    step is None
                    or clip.number < backward.number
                    or not (same_guards(backward, clip) and same_guards(clip, step))
                ):
                    continue
                if context.roles.of(clip.receiver) in ("accelerator", "fabric") or _unscaled(
                    loop, scaler, backward, clip
                ):
                    continue
                yield _finding(context, backward, clip, step, scaler)
                break


def _step_after(context: Context, loop: TrainingLoop, clip: Event, scaler: Obj) -> Event | None:
    for step in loop.steps:
        if step.number > clip.number and is_scaler(context, step.receiver) and same(step.receiver, scaler):
            return step
    return None


def _unscaled(loop: TrainingLoop, scaler: Obj, backward: Event, clip: Event) -> bool:
    for event in loop.unscales:
        if same(event.receiver, scaler) and backward.number < event.number < clip.number:
            return True
    for argument in (*clip.args[1:], *clip.kwargs.values()):
        if any(isinstance(p, Obj) and p.name == ".get_scale" for p in provenance(argument, 40)):
            return True
    return False


def _finding(context: Context, backward: Event, clip: Event, step: Event, scaler: Obj) -> Finding:
    base, target = _names(step)
    scale = context.value(scaler_setting(scaler, "init_scale"), 65536.0)
    limit = context.value(clip.argument(1, "max_norm") or clip.argument(1, "clip_value"))
    evidence = [Evidence("unscale_ between backward and clipping", 0)]
    if isinstance(scale, (int, float)) and scale > 0:
        evidence.append(Evidence("first scale", float(scale)))
        if isinstance(limit, (int, float)):
            evidence.append(Evidence("limit in effect at first", limit / scale, arithmetic=f"{limit} / {scale:g}"))
    # The optimizer goes by the name it has where the step is: clipping inside another function may not see it.
    here = step.script is clip.script and _function(step) is _function(clip)
    edit = context.insert_before(clip, f"{base}.unscale_({target})") if target and here else None
    return context.finding(
        RULE,
        clip,
        "gradients are clipped while they are still multiplied by the loss scale: the limit is far lower than it says",
        severity="warning" if enabled(scaler) is None or backward.context.shadow else None,
        evidence=evidence,
        fix=Fix(
            title="call unscale_ before clipping",
            safe=False,
            edits=edits(edit) if edit is not None else (),
            instruction=f"call {base}.unscale_({target or 'optimizer'}) right before the clipping",
            expected="the limit is the one that is written",
        ),
        related=[(backward, "scaled gradients are computed here"), (step, "the scaler steps here")],
    )


def _names(step: Event) -> tuple[str, str]:
    """What the script calls the scaler and the optimizer."""
    node = step.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return "scaler", ""
    return step.script.segment(node.func.value), step.script.segment(node.args[0]) if node.args else ""


def _function(event: Event) -> object:
    return next((f.node for f in event.context.frames() if f.kind == "call"), None)
