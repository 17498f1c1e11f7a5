"""Flag that cannot be given the meaning of its name.

## What it does
Looks for `argparse` flags whose action and default cancel or invert them: `store_true` with `default=True`, `store_false` with `default=False`, and `store_false` under a name that says the opposite of what giving it does.

## Why
`--amp` with `store_true` and `default=True` is on whether it is given or not: nobody can switch it off.
`--amp` with `store_false` switches the feature *off* when it is given.
A run that is started with the flag then trains another configuration than its command line says, and no error tells.

## Fix
Use `action=argparse.BooleanOptionalAction` (Python 3.9 and later), which makes `--amp` and `--no-amp`, or `store_true` with `default=False`.

## When to ignore
When the flag is kept for old command lines and is meant to have no effect.

## References
- Python documentation, argparse, "action"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.options import Declared, declared, imported_as
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="inverted-flag", code="CLI001", severity="warning", confidence="likely", layer="S", tags=("command line",)
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--shuffle", action="store_true", default=True)
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser as AP
def options():
    p = AP()
    group = p.add_argument_group("precision")
    group.add_argument("--amp", action="store_false", help="use mixed precision")
    return p.parse_args()
args = options()
""",
    """
import argparse as ap
FLAG = dict(action="store_true", default=True)
def build():
    parser = ap.ArgumentParser()
    parser.add_argument("--pin-memory", **FLAG)
    return parser
args = build().parse_args()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_false", default=False)
args = parser.parse_args()
""",
)

GOOD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", dest="cuda", action="store_false", default=True)
parser.add_argument("--cpu", dest="cuda", action="store_false")
parser.add_argument("--disable-amp", action="store_false")
parser.add_argument("--verbose", action="store_true", default=False)
args = parser.parse_args()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--ema", action="store_true", default=True)
parser.add_argument("--no-ema", action="store_false", dest="ema")
parser.add_argument("--fused", action=argparse.BooleanOptionalAction, default=True)
args = parser.parse_args()
""",
)

_NEGATIVE = r"^-*(no|not|non|disable|without|skip|dont|don|un|off|ignore|freeze|stop|remove|drop|avoid)([-_]|$)|[-_](off|disabled?)$"


def check(context: Context) -> Iterator[Finding]:
    """Find flags with an action that their default or name contradicts."""
    options = list(declared(context))
    for option in options:
        if option.action not in ("store_true", "store_false") or not option.flags:
            continue
        others = [o for o in options if o.dest == option.dest and o is not option and o.label != option.label]
        if others:
            continue  # another flag of the same name changes it the other way
        default = context.value(option.default)
        stored = option.action == "store_true"
        if default is stored:
            yield _constant(context, option, stored)
        elif not stored and not option.renamed and default in (None, True) and not re.search(_NEGATIVE, option.label):
            yield _inverted(context, option)


def _constant(context: Context, option: Declared, stored: bool) -> Finding:
    return context.finding(
        RULE,
        option.event,
        f"{option.label} stores {stored} and is {stored} by default: giving it changes nothing, and nothing can make it {not stored}",
        evidence=[Evidence("value when the flag is given", stored), Evidence("value when it is not given", stored)],
        fix=_fix(context, option, f"give {option.label} a default of {not stored}, or a --no- form"),
    )


def _inverted(context: Context, option: Declared) -> Finding:
    return context.finding(
        RULE,
        option.event,
        f"{option.label} has action store_false: giving {option.label} on the command line sets {option.dest} to False",
        evidence=[Evidence("value when the flag is given", False), Evidence("value when it is not given", True)],
        fix=_fix(
            context,
            option,
            f"let {option.label} set {option.dest} to True and --no-{option.label.lstrip('-')} to False",
        ),
    )


def _fix(context: Context, option: Declared, title: str) -> Fix:
    module, action, default = imported_as(context, "argparse"), option.keyword("action"), option.keyword("default")
    parts: list[Edit | None] = []
    if module is not None and action is not None and not re.search(_NEGATIVE, option.label):
        parts.append(context.replace((option.event.script, action.value), f"{module}.BooleanOptionalAction"))
        if default is None:
            node = option.event.node
            assert isinstance(node, ast.Call)
            parts.append(context.add_argument(option.event, "default=True"))
    return Fix(
        title=title,
        edits=edits(*parts) if parts and option.event.script is context.reading.script else (),
        instruction="use action=argparse.BooleanOptionalAction with the default you want (Python 3.9 and later)",
        expected="the flag means what it says",
    )
