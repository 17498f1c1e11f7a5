"""A learning-rate schedule rises where it should fall.

## What it does
Looks for decay factors above 1, and samples the schedule functions of the script: does the rate only ever rise?

## Why
`StepLR(gamma=10)` multiplies the rate by ten at each step, where `gamma=0.1` divides it by ten.
A multiplier `progress * 1 + (1 - progress) * final` begins at the final value and ends at full rate.
Training is most restless at its end, where it should settle.

## Fix
Use a factor below 1, or exchange the ends.

## When to ignore
When the schedule is a learning-rate finder, or only the warm-up of another one.

## References
- PyTorch, `torch.optim.lr_scheduler`
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.sampling import sample
from preflight.check.queries.schedules import TORCH, schedulers
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Known, Obj, Seq, Unknown, Value, plain, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="schedule-rises",
    code="SCH009",
    severity="warning",
    confidence="likely",
    needs=("training_loop",),
    tags=("schedule",),
)
# From the start of training to far beyond its end, in fractions of the run, in epochs and in steps.
POINTS = (
    0.0, 0.1, 0.3, 0.5, 0.9, 1.0, 5.0, 20.0, 50.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0,
    100_000.0, 500_000.0, 1_000_000.0,
)  # fmt: skip

_TRAIN = """
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""

BAD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=10)
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
    f"""{_HEAD}
import argparse
from torch.optim.lr_scheduler import ExponentialLR as Decay
parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=1.05)
scheduler = Decay(optimizer, parser.parse_args().gamma)
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
    f"""{_HEAD}
final = 0.0
progress = 0
def multiplier(done):
    return done * 1.0 + (1 - done) * final
for epoch in range(90):{_TRAIN}
    progress = max(progress, measured())
    factor = multiplier(progress)
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
""",
    f"""{_HEAD}
class Curve:
    def __call__(self, epoch):
        return self.at(epoch)
    def at(self, epoch):
        return 1.0 + 0.1 * epoch
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda e: 1.0 + 0.1 * e)
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
)

GOOD = (
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda e: min(1.0, (e + 1) / 500))
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
    f"""{_HEAD}
final = 0.0
progress = 0
def multiplier(done):
    return 1.0 if done < 0.8 else (1 - done) / 0.2 + done * final
for epoch in range(90):{_TRAIN}
    progress = max(progress, measured())
    factor = multiplier(progress)
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
""",
    f"""{_HEAD}
from torch.optim import lr_scheduler as lrs
warm = lrs.LambdaLR(optimizer, lambda step: step / 10)
scheduler = lrs.SequentialLR(optimizer, [warm, lrs.CosineAnnealingLR(optimizer, 80)], milestones=[10])
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
    f"""{_HEAD}
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [30, 60], gamma=0.1)
for epoch in range(90):{_TRAIN}
    scheduler.step()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Look at factors, and sample functions."""
    for scheduler in schedulers(context):
        if scheduler.context is not None and scheduler.context.shadow:
            continue
        kind = scheduler.name.removeprefix(TORCH)
        if kind in ("StepLR", "MultiStepLR", "ExponentialLR"):
            gamma = scheduler.argument(1 if kind == "ExponentialLR" else 2, "gamma")
            worth = settle(gamma) if gamma is not None else None
            factor = worth.value if isinstance(worth, Known) else None
            if isinstance(factor, (int, float)) and factor > 1 and not _searches(context, scheduler):
                yield _factor(context, scheduler, kind, factor)
        elif kind == "LambdaLR" and not _part_of_another(context, scheduler):
            yield from _function(context, scheduler)
    yield from _written(context)


def _searches(context: Context, scheduler: Obj) -> bool:
    """Whether the rate begins so low that nothing is learned: a test of rates (Smith, 2015) raises it step by step."""
    optimizer = scheduler.argument(0, "optimizer")
    made = settle(optimizer) if optimizer is not None else None
    given = made.argument(1, "lr") if isinstance(made, Obj) else None
    rate = plain(given)
    return isinstance(rate, float) and rate <= _TINY


_TINY = 1e-5


def _part_of_another(context: Context, scheduler: Obj) -> bool:
    """Whether a scheduler is one leg of a sequence: a warm-up may rise all the time."""
    others = (TORCH + "SequentialLR", TORCH + "ChainedScheduler")
    return any(p is scheduler for e in context.trace.calls(*others) for v in e.args for p in provenance(v, 20)) or any(
        p is scheduler for e in context.trace.calls(*others) for v in e.kwargs.values() for p in provenance(v, 20)
    )


def _factor(context: Context, scheduler: Obj, kind: str, gamma: float) -> Finding:
    return context.finding(
        RULE,
        scheduler,
        f"{kind} with gamma = {gamma:g} multiplies the learning rate each time: it rises instead of falling",
        evidence=[Evidence("gamma", gamma, arithmetic=f"after 3 decays: lr x {gamma**3:.4g}")],
        fix=Fix(
            title="use a factor below 1",
            instruction=f"gamma={1 / gamma:.3g}",
            expected="the rate falls",
        ),
    )


def _function(context: Context, scheduler: Obj) -> Iterator[Finding]:
    given = scheduler.argument(1, "lr_lambda")
    base = settle(given) if given is not None else None
    for function in base.items if isinstance(base, Seq) else [base]:
        if function is None:
            continue
        points = [p for p in POINTS if p == int(p)]
        found = sample(context, function, [[Known(int(p))] for p in points])
        if found is not None and _rises(found):
            yield _rising(context, scheduler, points, found)
            return


def _rises(values: list[float]) -> bool:
    """Whether every value is well above the one before."""
    return values[0] >= 0 and all(b > a * 1.001 and b > a for a, b in pairwise(values))


def _written(context: Context) -> Iterator[Finding]:
    """Functions whose result is written into the groups, as a factor of the first rate."""
    told: set[int] = set()
    made: dict[int, Event] = {}
    for event in context.trace.events:
        if event.inlined and isinstance(event.func, Func) and event.result is not None and len(event.args) == 1:
            made.setdefault(id(event.result), event)
    for store in context.trace.stores:
        if store.name != "['lr']" or not context.reading.loops or store.context.shadow:
            continue
        for part in provenance(store.value, 30):
            call = made.get(id(part))
            if call is None or call.func is None or id(call.func) in told or not _changes(call.args[0]):
                continue
            told.add(id(call.func))
            found = sample(context, call.func, [[Known(p)] for p in POINTS])
            if found is not None and _rises(found):
                yield _rising(context, call, list(POINTS), found)


def _changes(value: Value) -> bool:
    return any(isinstance(p, Unknown) for p in provenance(value, 10))


def _rising(context: Context, place: Obj | Event, points: list[float], values: list[float]) -> Finding:
    shown = ", ".join(f"f({p:g}) = {v:.3g}" for p, v in list(zip(points, values, strict=True))[:6])
    return context.finding(
        RULE,
        place,
        "the schedule's factor rises from beginning to end: the learning rate is largest when training should settle",
        evidence=[Evidence("factor, sampled", shown, source="measured")],
        fix=Fix(
            title="exchange the ends of the schedule",
            instruction="begin at 1 and fall to the final fraction: (1 - progress) + progress * final",
            expected="the rate falls towards the end",
        ),
    )
