"""Option with type=bool is true for every text.

## What it does
Looks for `add_argument(..., type=bool)`.

## Why
`argparse` calls `bool("False")`, and every text but the empty one is true.
`--fp16 False` therefore switches fp16 *on*.

## Fix
Use `action=argparse.BooleanOptionalAction` (`--fp16` / `--no-fp16`), or a function that reads the text.

## When to ignore
Never with plain argparse; jsonargparse, click and tyro read booleans properly and are not reported.

## References
- Python documentation, argparse, "type": bool is not recommended as a type converter
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import Declared, declared, imported_as
from preflight.check.rule import Rule
from preflight.source.values import Ext, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="bool-as-option-type",
    code="CLI002",
    severity="warning",
    confidence="certain",
    layer="S",
    tags=("command line",),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", type=bool, default=False)
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser
class Options:
    def __init__(self):
        self.parser = ArgumentParser()
        self.parser.add_argument("--use_ema", default=True, type=bool)
    def parse(self):
        return self.parser.parse_args()
opt = Options().parse()
""",
    """
import argparse as ap
kind = bool
def add(parser, name, **more):
    parser.add_argument(name, type=kind, **more)
p = ap.ArgumentParser()
add(p, "--resume", default=False)
args = p.parse_args()
""",
)

GOOD = (
    """
import argparse
def str2bool(text):
    return text.lower() in ("1", "true", "yes")
parser = argparse.ArgumentParser()
parser.add_argument("--amp", type=str2bool, default=False)
parser.add_argument("--workers", type=int, default=bool(1))
args = parser.parse_args()
""",
    """
import click
@click.command()
@click.option("--amp", type=bool, default=False)
def main(amp):
    print(amp)
main()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.register("type", bool, lambda text: text.lower() == "true")
parser.add_argument("--amp", type=bool, default=False)
args = parser.parse_args()
""",
    """
from jsonargparse import ArgumentParser
parser = ArgumentParser()
parser.add_argument("--amp", type=bool, default=False)
args = parser.parse_args()
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find options whose conversion is the type bool."""
    for event in context.trace.calls(".register"):
        kind = settle(event.args[1]) if len(event.args) > 1 else None
        if isinstance(kind, Ext) and kind.name == "builtins.bool":
            return  # the parser was taught to read booleans
    for option in declared(context):
        if option.type_name == "builtins.bool":
            yield _finding(context, option)


def _finding(context: Context, option: Declared) -> Finding:
    default = context.value(option.default)
    module, kind = imported_as(context, "argparse"), option.keyword("type")
    plain_flag = option.flags and not {"nargs", "const", "choices", "action"} & set(option.event.kwargs)
    edit = None
    if module and kind is not None and plain_flag and option.event.script is context.reading.script:
        edit = context.replace((option.event.script, kind), f"action={module}.BooleanOptionalAction")
    shown = option.label if option.flags else f"the argument {option.label}"
    return context.finding(
        RULE,
        option.event,
        f"{shown} is converted with bool(), which is True for every text: {shown} False gives True",
        evidence=[
            Evidence("default", default if isinstance(default, bool) else None),
            Evidence('bool("False")', True, arithmetic='bool(text) is False only for ""'),
        ],
        fix=Fix(
            title=f"let {option.label} be a real switch",
            edits=edits(edit) if edit is not None else (),
            instruction="use action=argparse.BooleanOptionalAction (--flag / --no-flag), or a function that reads true and false",
            expected=f"{option.label} can be switched off",
        ),
    )
