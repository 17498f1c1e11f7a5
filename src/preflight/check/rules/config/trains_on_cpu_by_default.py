"""The default arguments train on the CPU.

## What it does
Looks for a script that can use a GPU, but whose default options put the model on the CPU: `--cuda` with `store_true`, `--device` with the default "cpu".

## Why
A run that is started without the option is one to two orders of magnitude slower, and nothing but the missing load of the GPU tells.

## Fix
Let the default follow the machine: `"cuda" if torch.cuda.is_available() else "cpu"`.

## When to ignore
When the script is meant for the CPU first.

## References
- PyTorch documentation, torch.cuda.is_available
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.options import from_option
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Choice, Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="trains-on-cpu-by-default",
    code="DEV002",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="C",
    tags=("device", "speed"),
)

_TRAIN = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
_HEAD = """
import argparse, torch
from torch import nn
p = argparse.ArgumentParser()
"""

BAD = (
    _HEAD
    + """p.add_argument("--cuda", action="store_true")
args = p.parse_args()
model = nn.Linear(4, 2)
if args.cuda:
    model.cuda()
"""
    + _TRAIN,
    _HEAD
    + """p.add_argument("--device", default="cpu")
args = p.parse_args()
def build(args):
    return nn.Linear(4, 2).to(args.device)
model = build(args)
"""
    + _TRAIN,
    _HEAD
    + """p.add_argument("--cuda", action="store_true", default=False)
args = p.parse_args()
device = torch.device("cuda:0" if args.cuda else "cpu")
model = nn.Linear(4, 2).to(device)
"""
    + _TRAIN,
)

GOOD = (
    _HEAD
    + """p.add_argument("--no-cuda", action="store_true")
args = p.parse_args()
use = not args.no_cuda and torch.cuda.is_available()
device = torch.device("cuda" if use else "cpu")
model = nn.Linear(4, 2).to(device)
"""
    + _TRAIN,
    _HEAD
    + """p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = p.parse_args()
model = nn.Linear(4, 2).to(args.device)
"""
    + _TRAIN,
    _HEAD
    + """p.add_argument("--gpus", type=int, default=1)
args = p.parse_args()
model = nn.Linear(4, 2)
if torch.cuda.is_available():
    model = model.cuda()
if args.gpus > 1:
    model = nn.DataParallel(model).cuda()
"""
    + _TRAIN,
    "import torch\nfrom torch import nn\nmodel = nn.Linear(4, 2).to('cpu')\n" + _TRAIN,
)


def check(context: Context) -> Iterator[Finding]:
    """Find models that only an option moves to a GPU."""
    for role in ("accelerator", "fabric", "engine", "trainer", "lightning_trainer"):
        if context.reading.made(role):
            return
    moves = [e for e in context.trace.calls(".to", ".cuda") if context.roles.of(e.receiver) == "model"]
    if not moves or all(loop.frame.shadow for loop in context.reading.loops):
        return
    shadow: tuple[Event, set[str]] | None = None
    for event in moves:
        where, options = _target(context, event)
        if where != "cpu":
            if event.context.shadow:
                names = {n for f in event.context.frames() if f.kind == "if" for n in from_option(f.value)}
                shadow = shadow or ((event, names) if names else None)
                continue
            return  # a model gets to a GPU, or to a device that is not known
        if options and not event.context.shadow:
            shadow = (event, options)
    if shadow is None or _elsewhere(context):
        return
    event, names = shadow
    option = "--" + sorted(names)[0].replace("_", "-")
    yield context.finding(
        RULE,
        event,
        f"with the default arguments the model stays on the CPU: only {option} moves it to a GPU",
        evidence=[Evidence("device with the defaults", "cpu"), Evidence("option that decides", option)],
        fix=Fix(
            title="use a GPU where there is one",
            instruction='default to "cuda" if torch.cuda.is_available() else "cpu"',
            expected="the run uses the GPU without an option",
        ),
    )


def _target(context: Context, event: Event) -> tuple[str | None, set[str]]:
    """Where a call moves to with the defaults, and the options that could change it."""
    if event.name == ".cuda":
        return "cuda", set()
    value: Value | None = event.argument(0, "device")
    options: set[str] = set()
    for _ in range(6):
        if value is None:
            return None, options
        options |= from_option(value)
        if isinstance(value, Choice) and value.test is not None:
            options |= from_option(value.test)
        base = settle(value)
        if isinstance(base, Obj) and base.name == "torch.device" and base.args:
            value = base.args[0]
            continue
        if isinstance(base, Known) and isinstance(base.value, str):
            return ("cpu" if base.value == "cpu" else "cuda"), options
        return None, options
    return None, options


def _elsewhere(context: Context) -> bool:
    """Whether the default device is set in another way."""
    return bool(
        context.trace.calls(
            "torch.set_default_device",
            "torch.set_default_tensor_type",
            "torch.cuda.set_device",
            "torch.nn.parallel.DistributedDataParallel",
        )
    )
