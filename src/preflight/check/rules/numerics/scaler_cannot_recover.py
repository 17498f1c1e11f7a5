"""A gradient scaler whose settings keep it from working.

## What it does
Checks the numbers that a `GradScaler` is made with: the first scale, the factors of growth and back-off, and the interval of growth.

## Why
After an overflow the scale is halved, and it grows again only after `growth_interval` steps without one.
An interval longer than the run leaves it where the first overflow put it; a first scale of 1 has to grow sixteen times, which takes 16 x 2,000 = 32,000 steps by default.
Factors that do not grow (or do not back off) are refused by PyTorch.

## Fix
Leave the defaults: first scale 65,536, growth 2.0, back-off 0.5, interval 2,000.

## When to ignore
When the loss is scaled by other means as well.

## References
- PyTorch documentation, `torch.amp.GradScaler`
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.precision import enabled, scaler_setting, scalers
from preflight.check.rule import Rule
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scaler-cannot-recover",
    code="AMP006",
    severity="warning",
    confidence="likely",
    needs=("scaler",),
    layer="C",
    tags=("precision",),
)

BAD = (
    """
import torch
scaler = torch.cuda.amp.GradScaler(init_scale=1.0)
""",
    """
from torch.amp import GradScaler as Scaler
class Trainer:
    def __init__(self, interval):
        self.scaler = Scaler("cuda", growth_interval=interval)
Trainer(10_000_000)
""",
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--growth", type=float, default=1.0)
args = parser.parse_args()
scaler = torch.cuda.amp.GradScaler(2.0**16, args.growth)
""",
    """
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
scaler = ShardedGradScaler("cuda", 2.0**16, 0.5, 1.0)
""",
)

GOOD = (
    """
import torch
scaler = torch.cuda.amp.GradScaler(init_scale=2.0**10, growth_interval=100)
""",
    """
import torch
scaler = torch.amp.GradScaler("cuda", init_scale=1.0, enabled=False)
""",
)

_LONG = 1_000_000


def check(context: Context) -> Iterator[Finding]:
    """Check the settings of each scaler."""
    for scaler in scalers(context):
        if enabled(scaler) is False or scaler.open_args:
            continue
        found = _wrong(context, scaler)
        if found is None:
            continue
        severity, text, name, value, arithmetic = found
        yield context.finding(
            RULE,
            scaler,
            text,
            severity="error" if severity == "error" else None,
            evidence=[Evidence(name, value, arithmetic=arithmetic)],
            fix=Fix(
                title=f"leave {name} at its default",
                safe=False,
                instruction=f"remove {name}, or give it a value near the default",
                expected="the scale recovers after an overflow",
            ),
        )


def _number(context: Context, scaler: Obj, name: str, default: float) -> float:
    given = scaler_setting(scaler, name)
    value = default if given is None else context.value(given, default)
    return float(value) if isinstance(value, (int, float)) else default


def _wrong(context: Context, scaler: Obj) -> tuple[str, str, str, float, str | None] | None:
    first = _number(context, scaler, "init_scale", 65536.0)
    growth = _number(context, scaler, "growth_factor", 2.0)
    back = _number(context, scaler, "backoff_factor", 0.5)
    interval = _number(context, scaler, "growth_interval", 2000)
    if growth <= 1:
        return (
            "error",
            f"growth_factor is {growth:g}: PyTorch refuses a factor that does not grow",
            "growth_factor",
            growth,
            None,
        )
    if back >= 1:
        return (
            "error",
            f"backoff_factor is {back:g}: PyTorch refuses a factor that does not shrink",
            "backoff_factor",
            back,
            None,
        )
    if interval >= _LONG:
        text = (
            f"growth_interval is {interval:,.0f} steps: after an overflow the scale stays low for the rest of the run"
        )
        return "warning", text, "growth_interval", interval, None
    if 0 < first <= 1 and interval >= 1000:
        doublings = math.ceil(math.log(65536 / first, growth))
        steps = f"{doublings} x {interval:,.0f} = {doublings * interval:,.0f} steps to reach 65,536"
        return (
            "warning",
            f"the first scale is {first:g}: small float16 gradients are lost for the first {doublings * interval:,.0f} steps",
            "init_scale",
            first,
            steps,
        )
    return None
