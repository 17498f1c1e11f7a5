"""A generator of parameters is used a second time.

## What it does
Follows what `model.parameters()` returned, and finds the second consumer of the same generator: an optimizer, or gradient clipping.

## Why
`parameters()` returns a generator, which is empty once it was gone through.
An optimizer refuses an empty list with an error; gradient clipping does not: it clips nothing, reports a norm of 0, and training runs unclipped.

## Fix
Keep a list, `params = list(model.parameters())`, or call `parameters()` again where it is needed.

## When to ignore
Never: a generator that was consumed has nothing left.

## References
- PyTorch documentation, `torch.nn.Module.parameters`: "Return an iterator over module parameters"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.updates import clipped
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.training import same_guards
from preflight.source.values import Dict, Obj, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="exhausted-parameter-generator",
    code="OPT005",
    severity="error",
    confidence="certain",
    needs=("optimizer",),
    layer="D",
    tags=("optimizer", "clipping"),
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
params = model.parameters()
print(sum(p.numel() for p in params))
optimizer = torch.optim.SGD(params, lr=0.1)
""",
    """
from torch import nn, optim
from torch.nn.utils import clip_grad_norm_
net = nn.Linear(10, 2)
weights = net.parameters()
opt = optim.AdamW(weights)
for x, y in data:
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    clip_grad_norm_(weights, 1.0)
    opt.step()
""",
    """
import argparse
import torch
class Trainer:
    def __init__(self, args):
        self.net = torch.nn.Linear(10, 2)
        trainable = filter(lambda p: p.requires_grad, self.net.parameters())
        self.count = len(list(trainable))
        self.opt = torch.optim.Adam(trainable, lr=args.lr)
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
Trainer(parser.parse_args())
""",
)

GOOD = (
    """
import torch
from torch import nn
def clipper(options):
    if "value" in options:
        limit = options["value"]
        clip = lambda given: nn.utils.clip_grad_value_(given, limit)
    else:
        limit = options["norm"]
        clip = lambda given: nn.utils.clip_grad_norm_(given, limit)
    return clip
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
clip = clipper(read_options())
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    clip(model.parameters())
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
params = list(model.parameters())
print(sum(p.numel() for p in params))
optimizer = torch.optim.SGD(params, lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
def make(kind, params):
    if kind == "sgd":
        return torch.optim.SGD(params, lr=0.1)
    return torch.optim.Adam(params)
kind = input()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if kind else make(kind, model.parameters())
print(sum(p.numel() for p in model.parameters()))
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
params = model.parameters()
optimizer = None
if input() == "sgd":
    optimizer = torch.optim.SGD(params, lr=0.1)
else:
    optimizer = torch.optim.Adam(params)
""",
)

_GENERATORS = frozenset({".parameters", ".named_parameters", "builtins.filter", "itertools.chain", "builtins.map"})
_EAT = frozenset(
    [
        "builtins.list",
        "builtins.tuple",
        "builtins.set",
        "builtins.sum",
        "builtins.sorted",
        "builtins.dict",
        "builtins.max",
        "builtins.min",
        "builtins.any",
        "builtins.all",
        "torch.nn.utils.clip_grad_norm_",
        "torch.nn.utils.clip_grad_value_",
        "torch.nn.utils.parameters_to_vector",
        "torch.nn.utils.get_total_norm",
    ]
)
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", ".clip_grad_norm_", ".clip_grad_value_")


def check(context: Context) -> Iterator[Finding]:
    """Find generators with two consumers, the second an optimizer or clipping."""
    uses = _uses(context)
    for optimizer in context.reading.made("optimizer"):
        made = context.reading.event_of(optimizer)
        given = optimizer.argument(0, "params")
        if made is None or given is None or optimizer.name.startswith("timm."):
            continue
        for source in _sources(given):
            yield from _second(
                context,
                source,
                made,
                uses,
                "the optimizer is given a generator of parameters that is already used up: it finds no parameter",
            )
    for event in context.trace.calls(*_CLIPS):
        given = clipped(event)
        for source in _sources(given) if given is not None else ():
            text = "gradient clipping is given a generator of parameters that is already used up: nothing is clipped, and no error is raised"
            yield from _second(context, source, event, uses, text)


def _second(context: Context, source: Obj, event: Event, uses: dict[int, list[Event]], text: str) -> Iterator[Finding]:
    before = [
        u
        for u in uses.get(id(source), ())
        if u.node is not event.node and u.number < event.number and same_guards(u, event) and not u.context.shadow
    ]
    certain = [u for u in before if set(_branches(u)) <= set(_branches(event))]
    if not certain:
        return
    made = context.reading.event_of(source)
    node = made.node if made is not None else None
    edit = None
    if made is not None and isinstance(node, ast.Call):
        edit = context.replace(made, f"list({made.script.segment(node)})")
    yield context.finding(
        RULE,
        event,
        text,
        evidence=[Evidence("consumers of the same generator before this one", len(certain))],
        fix=Fix(
            title="keep the parameters in a list",
            safe=False,
            edits=edits(edit) if edit is not None else (),
            instruction="wrap the call of parameters() in list(...) where it is kept in a variable",
            expected="both uses see all parameters",
        ),
        related=[(certain[0], "the generator is used up here")],
    )


def _branches(event: Event) -> list[tuple[int, bool | None]]:
    return [(id(f.node), f.polarity) for f in event.context.frames() if f.kind in ("if", "except")]


def _sources(value: Value) -> list[Obj]:
    """Generators that a consumer goes through, itself or inside groups."""
    base = settle(value)
    if isinstance(base, Obj) and base.name in _GENERATORS:
        inner = [s for a in base.args if base.name in ("builtins.filter", "itertools.chain") for s in _sources(a)]
        return [base, *inner]
    if isinstance(base, Seq) and base.kind == "list":
        return [s for item in base.items if isinstance(settle(item), Dict) for s in _sources(item)]
    if isinstance(base, Dict) and "params" in base.entries:
        return _sources(base.entries["params"])
    return []


def _uses(context: Context) -> dict[int, list[Event]]:
    """What goes through each generator, by identity."""
    found: dict[int, list[Event]] = {}
    for event in context.trace.events:
        values: list[Value] = []
        if event.name in _EAT or event.name in _CLIPS:
            values = event.args[:1] + [v for k, v in event.kwargs.items() if k in ("parameters", "iterable")]
        elif context.roles.of(event.result) == "optimizer" and event.args and not event.inlined:
            values = event.args[:1]
        for value in values:
            for source in _sources(value):
                found.setdefault(id(source), []).append(event)
        for frame in event.context.frames():
            if frame.kind == "loop" and frame.value is not None:
                for source in _sources(frame.value):
                    if event not in found.setdefault(id(source), []):
                        found[id(source)].append(event)
    return found
