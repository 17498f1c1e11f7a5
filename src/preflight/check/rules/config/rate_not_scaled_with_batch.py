"""The batch was made larger, the learning rate was not.

## What it does
Looks for a batch size on the command line that is four times its default or more, while the rate is at its default.

## Why
The default rate belongs to the default batch.
With k times the batch SGD makes k times fewer steps, each from a less noisy gradient.
At the old rate it learns more slowly: Goyal et al. scale the rate by k, from 0.1 at 256 images to 3.2 at 8192.

## Fix
Multiply the rate by k for SGD (with warm-up), by about the square root of k for Adam.

## When to ignore
When the script scales the rate itself, or the number of epochs is raised too.

## References
- Goyal et al., "Accurate, Large Minibatch SGD", 2017
- Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", 2022
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.learning_rates import optimizers, rates, short
from preflight.check.queries.loaders import given, torch_loaders
from preflight.check.queries.options import Declared, declared
from preflight.check.rule import Example, Rule
from preflight.source.trace import provenance
from preflight.source.values import Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="rate-not-scaled-with-batch",
    code="LR003",
    severity="info",
    confidence="likely",
    needs=("optimizer", "loader"),
    layer="C",
    tags=("optimizer",),
)

_CODE = """
import argparse, torch
from torch import nn
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
model = nn.Linear(10, 2)
"""

BAD = (
    Example(
        _CODE
        + """
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
""",
        arguments=("--batch-size", "4096"),
    ),
    Example(
        _CODE
        + """
from torch.optim import AdamW as Opt
def loader(size):
    return DataLoader(dataset, size, shuffle=True)
train = loader(args.batch_size)
optimizer = Opt(model.parameters(), args.lr / 100)
""",
        arguments=("--batch-size=1024",),
    ),
    Example(
        """
import argparse, torch
from torch.utils import data
class Job:
    def __init__(self, options):
        self.net = torch.nn.Linear(4, 2)
        self.loader = data.DataLoader(dataset, batch_size=options.bs, shuffle=True)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=options.rate)
parser = argparse.ArgumentParser()
parser.add_argument("-b", "--bs", type=int, default=32)
parser.add_argument("--rate", type=float, default=0.05)
Job(parser.parse_args())
""",
        arguments=("-b", "512"),
    ),
)

GOOD = (
    Example(
        _CODE
        + """
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * args.batch_size / 256)
""",
        arguments=("--batch-size", "4096"),
    ),
    Example(
        _CODE
        + """
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
""",
        arguments=("--batch-size", "4096", "--lr", "1.6"),
    ),
    Example(
        _CODE
        + """
loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
"""
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what was given with the defaults."""
    options = list(declared(context)) if context.reading.machine.arguments else []
    grown = next((o for loader in torch_loaders(context) if (o := _grown(context, loader, options)) is not None), None)
    if grown is None:
        return
    for optimizer in optimizers(context):
        for rate in rates(context, optimizer):
            parts = [p for p in provenance(rate.given, 40) if isinstance(p, Known)]
            if any(str(p.how or "").startswith("default of -") for p in parts) and not _derived(parts, grown[0]):
                yield _finding(context, optimizer, rate.value, *grown)
                return


def _grown(context: Context, loader: Obj, options: list[Declared]) -> tuple[Declared, float, float] | None:
    """The option, the default and the value of a batch size that was made much larger."""
    size: Value | None = given(loader, "batch_size")
    worth = settle(size) if size is not None else None
    if not isinstance(worth, Known) or not isinstance(worth.value, int):
        return None
    for option in options:
        default = context.value(option.default)
        if _given(worth, option) and isinstance(default, int) and default > 0 and worth.value >= 4 * default:
            return option, default, worth.value
    return None


def _given(value: Known, option: Declared) -> bool:
    """Whether a value was given on the command line for an option."""
    how = str(value.how or "")
    return not how.startswith("default of") and any(flag in how.split() for flag in option.flags)


def _derived(parts: list[Known], option: Declared) -> bool:
    """Whether the rate is computed from the batch size."""
    return any(_given(p, option) for p in parts)


def _finding(context: Context, optimizer: Obj, rate: float, option: Declared, default: float, size: float) -> Finding:
    k = size / default
    linear = short(optimizer) in ("SGD", "RMSprop")
    scaled = rate * (k if linear else k**0.5)
    return context.finding(
        RULE,
        context.reading.event_of(optimizer) or optimizer,
        f"{option.label} {size:g} is {k:g} times its default, but the learning rate is left at its default of {rate:g}",
        evidence=[
            Evidence("batch size", size, arithmetic=f"{size:g} / {default:g} = {k:g}"),
            Evidence(
                "learning rate after the usual rule",
                round(scaled, 6),
                arithmetic=f"{rate:g} x {k:g}" if linear else f"{rate:g} x sqrt({k:g})",
            ),
        ],
        fix=Fix(
            title="scale the learning rate with the batch",
            instruction=f"try {scaled:.3g}, with a warm-up",
            expected="as much progress per epoch as with the small batch",
        ),
    )
