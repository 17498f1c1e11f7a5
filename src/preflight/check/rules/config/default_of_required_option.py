"""Option that is required and has a default.

## What it does
Looks for `add_argument("--x", required=True, default=...)`.

## Why
The default is never used: the program ends with a usage error unless the option is given.
A reader of the code takes the default for the configuration of the run.

## Fix
Drop `required=True` when the default is meant, or drop the default.

## When to ignore
When the default is there for code that builds the namespace without a command line.

## References
- Python documentation, argparse, "required"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.options import declared
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="default-of-required-option",
    code="CLI007",
    severity="info",
    confidence="certain",
    layer="S",
    tags=("command line",),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True, default="data/")
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser as AP
def options():
    p = AP()
    p.add_argument("--lr", type=float, default=3e-4, required=True)
    return p.parse_args()
args = options()
""",
    """
import argparse as ap
NEEDED = {"required": True}
parser = ap.ArgumentParser()
group = parser.add_argument_group("data")
group.add_argument("--epochs", type=int, default=10, **NEEDED)
args = parser.parse_args()
""",
)

GOOD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True, default=None)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--epochs", type=int, required=False, default=3)
args = parser.parse_args()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.set_defaults(data="data/")
args = parser.parse_args()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find defaults that cannot be used."""
    for option in declared(context):
        default = context.value(option.default)
        if not option.flags or context.value(option.event.kwargs.get("required")) is not True or default is None:
            continue
        yield context.finding(
            RULE,
            option.event,
            f"{option.label} is required, so its default {default!r} is never used",
            evidence=[Evidence("required", True), Evidence("default", repr(default))],
            fix=Fix(
                title=f"drop required=True or the default of {option.label}",
                instruction="keep required=True when everybody has to choose, else keep the default",
                expected="the declaration says what happens",
            ),
        )
