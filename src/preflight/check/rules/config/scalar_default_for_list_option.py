"""Option that takes several values has a single value as default.

## What it does
Looks for `add_argument(..., nargs="+")` (also `"*"` and numbers) with a default that is a number or a text instead of a list.

## Why
When the option is given, the program gets a list; when it is not, it gets the default as it stands.
`for w in args.widths` then fails on a number, and goes over the characters of a text.

## Fix
Put the default into a list: `default=[128]`.

## When to ignore
When the code asks for the type before it uses the value.

## References
- Python documentation, argparse, "nargs"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import declared
from preflight.check.rule import Rule
from preflight.source.values import Ext, Known, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(name="scalar-default-for-list-option", code="CLI006", severity="warning", layer="S", tags=("command line",))

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--widths", type=int, nargs="+", default=128)
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser as AP
def options():
    p = AP()
    p.add_argument("--layers", default="conv1", nargs="*")
    return p.parse_args()
args = options()
""",
    """
import argparse as ap
SIZE = 224
class Command:
    def __init__(self):
        self.parser = ap.ArgumentParser()
        self.parser.add_argument("--size", type=int, nargs=2, default=SIZE)
args = Command().parser.parse_args()
""",
)

GOOD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--widths", type=int, nargs="+", default=[128])
parser.add_argument("--layers", nargs="*", default=None)
parser.add_argument("--resume", nargs="?", const="last", default="")
parser.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.999))
args = parser.parse_args()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--widths", nargs="+", default=128)
args = parser.parse_args()
widths = args.widths if isinstance(args.widths, list) else [args.widths]
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find single defaults of options that give lists."""
    asked = any(
        isinstance(k, Ext)
        and k.name in ("builtins.list", "builtins.tuple", "builtins.str", "builtins.int", "builtins.float")
        for e in context.trace.calls("builtins.isinstance")
        for k in map(settle, e.args[1:2])
    )
    for option in declared(context):
        nargs = context.value(option.event.kwargs.get("nargs"))
        several = nargs in ("+", "*") or (isinstance(nargs, int) and not isinstance(nargs, bool))
        default = settle(option.default) if option.default is not None else None
        if not several or not isinstance(default, Known) or default.value in (None, "") or not option.flags:
            continue
        if not isinstance(default.value, (int, float, str)) or asked or isinstance(default.value, bool):
            continue
        if isinstance(default.value, str) and default.value.startswith("=="):
            continue  # argparse.SUPPRESS
        keyword = option.keyword("default")
        edit = None
        if keyword is not None:
            edit = context.replace(
                (option.event.script, keyword.value), f"[{option.event.script.segment(keyword.value)}]"
            )
        yield context.finding(
            RULE,
            option.event,
            f"{option.label} gives a list when it is given (nargs={nargs!r}) and {default.value!r} when it is not",
            evidence=[
                Evidence("nargs", nargs if isinstance(nargs, (int, str)) else None),
                Evidence("default", default.value),
            ],
            fix=Fix(
                title=f"make the default of {option.label} a list",
                edits=edits(edit) if edit is not None else (),
                instruction=f"use default=[{default.value!r}]",
                expected="the option always gives a list",
            ),
        )
