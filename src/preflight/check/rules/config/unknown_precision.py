"""Precision that Lightning does not know.

## What it does
Compares `precision=` of Lightning's Trainer and of Fabric, and `mixed_precision=` of Accelerate, with the values that they accept.

## Why
Any other value raises when the trainer is made: `precision="fp16"`, `"mixed"`, `"float16"` and `8` are none of Lightning's words, `"float16"` is none of Accelerate's.

## Fix
Lightning: "16-mixed", "bf16-mixed", "16-true", "bf16-true", "32-true", "64-true".
Accelerate: "no", "fp16", "bf16", "fp8".

## When to ignore
When a newer version accepts a new word.

## References
- Lightning documentation, Trainer argument `precision`
- Accelerate documentation, Accelerator argument `mixed_precision`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.errors import nearest
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="unknown-precision",
    code="LIT002",
    severity="error",
    confidence="certain",
    layer="C",
    tags=("lightning", "accelerate", "precision"),
)

BAD = (
    """
import lightning.pytorch as pl
trainer = pl.Trainer(precision="fp16")
""",
    """
import argparse
from accelerate import Accelerator as A
def start(half):
    return A(mixed_precision=half)
p = argparse.ArgumentParser()
p.add_argument("--half", default="float16")
accelerator = start(p.parse_args().half)
""",
    """
from dataclasses import dataclass
from lightning import Fabric
@dataclass
class Config:
    precision: str = "mixed"
class Run:
    def __init__(self, config):
        self.fabric = Fabric(precision=config.precision, devices=1)
Run(Config())
""",
)

GOOD = (
    """
import lightning.pytorch as pl
from accelerate import Accelerator
a = pl.Trainer(precision="bf16-mixed")
b = pl.Trainer(precision=16)
c = pl.Trainer()
d = Accelerator(mixed_precision="bf16")
e = Accelerator(mixed_precision=None)
f = pl.Trainer(precision=choose())
""",
)

_LIGHTNING = (
    "16-mixed",
    "bf16-mixed",
    "32-true",
    "64-true",
    "16-true",
    "bf16-true",
    "16",
    "32",
    "64",
    "bf16",
    "transformer-engine",
    "transformer-engine-float16",
)
_ACCELERATE = ("no", "fp16", "bf16", "fp8")


def check(context: Context) -> Iterator[Finding]:
    """Find words that are not accepted."""
    for names, keyword, allowed in (
        (("lightning.pytorch.Trainer", "lightning.fabric.Fabric"), "precision", _LIGHTNING),
        (("accelerate.Accelerator",), "mixed_precision", _ACCELERATE),
    ):
        for event in context.trace.calls(*names):
            value = context.value(event.kwargs.get(keyword))
            if value is None or isinstance(value, bool) or not isinstance(value, (str, int)) or str(value) in allowed:
                continue
            near = nearest(str(value), list(allowed))
            hint = f', such as "{near}"' if near else ""
            yield context.finding(
                RULE,
                event,
                f"{keyword}={value!r} is not a precision that {event.name.rpartition('.')[2]} knows{hint}: it raises when it is made",
                evidence=[Evidence(keyword, value), Evidence("accepted", ", ".join(allowed), source="published")],
                fix=Fix(
                    title="use an accepted precision",
                    instruction=f"one of {', '.join(allowed)}",
                    expected="the trainer can be made",
                ),
            )
