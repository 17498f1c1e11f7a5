"""Option with type=list is split into characters.

## What it does
Looks for `add_argument(..., type=list)` (also `tuple`, `set` and `dict`).

## Why
`argparse` calls `list("128,256")`, which gives `['1', '2', '8', ',', '2', '5', '6']`: the option takes no list, it takes text apart.
`dict("a=1")` raises.

## Fix
Use `nargs="+"` with the type of the items: `nargs="+", type=int`.

## When to ignore
When the characters of the text are really wanted.

## References
- Python documentation, argparse, "nargs" and "type"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import Declared, declared
from preflight.check.rule import Rule
from preflight.source.values import Known, Seq, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="list-as-option-type",
    code="CLI004",
    severity="warning",
    confidence="certain",
    layer="S",
    tags=("command line",),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--widths", type=list, default=[128, 256])
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser as AP
def options():
    p = AP()
    p.add_argument("--betas", default=(0.9, 0.999), type=tuple)
    return p.parse_args()
args = options()
""",
    """
import argparse as ap
KIND = list
class Command:
    def __init__(self):
        self.parser = ap.ArgumentParser()
        self.parser.add_argument("--gpu-ids", type=KIND)
    def read(self):
        return self.parser.parse_args()
args = Command().read()
""",
)

GOOD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--widths", type=int, nargs="+", default=[128, 256])
parser.add_argument("--names", type=lambda text: list(text.split(",")), default=["a"])
args = parser.parse_args()
""",
    """
import click
@click.command()
@click.option("--widths", type=list)
def main(widths):
    print(widths)
main()
""",
)

_KINDS = {"builtins.list": "list", "builtins.tuple": "tuple", "builtins.set": "set", "builtins.dict": "dict"}


def check(context: Context) -> Iterator[Finding]:
    """Find options whose conversion is a container type."""
    for option in declared(context):
        kind = _KINDS.get(option.type_name or "")
        if kind is None:
            continue
        item, keyword = _item_type(option), option.keyword("type")
        edit = None
        if keyword is not None and item is not None and "nargs" not in option.event.kwargs and kind != "dict":
            edit = context.replace((option.event.script, keyword), f'nargs="+", type={item}')
        effect = "raises for plain text" if kind == "dict" else f"takes the text apart: 12,34 gives {list('12,34')}"
        yield context.finding(
            RULE,
            option.event,
            f"{option.label} is converted with {kind}(), which {effect}",
            evidence=[
                Evidence(
                    "conversion",
                    kind,
                    arithmetic=f'{kind}("12,34")' + ("" if kind == "dict" else f" = {list('12,34')}"),
                )
            ],
            fix=Fix(
                title=f"read {option.label} with nargs",
                edits=edits(edit) if edit is not None else (),
                instruction='use nargs="+" with the type of one item',
                expected=f"{option.label} 12 34 gives [12, 34]",
            ),
        )


def _item_type(option: Declared) -> str | None:
    default = settle(option.default) if option.default is not None else None
    if not isinstance(default, Seq) or not default.items:
        return None
    kinds = {type(v.value).__name__ for v in map(settle, default.items) if isinstance(v, Known)}
    return kinds.pop() if len(kinds) == 1 and kinds <= {"int", "float", "str"} else None
