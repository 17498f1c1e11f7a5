"""Default of an option that is not among its choices.

## What it does
Looks for `add_argument(..., choices=[...], default=...)` where the default is none of the choices.

## Why
`argparse` checks what a person types, never a default that is not text, and the program meets a value that its branches do not know: usually the last `else`, or none.

## Fix
Make the default one of the choices, or add it to them.

## When to ignore
When the value stands for "not given" and the code tests for it; `None` and empty text are not reported for that reason.

## References
- Python documentation, argparse, "choices"
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.options import Declared, declared
from preflight.check.rule import Rule
from preflight.source.values import Dict, Ext, Seq, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="default-outside-choices",
    code="CLI005",
    severity="warning",
    confidence="certain",
    layer="S",
    tags=("command line",),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="adam")
args = parser.parse_args()
""",
    """
from argparse import ArgumentParser as AP
LEVELS = ("O0", "O1", "O2")
def options():
    p = AP()
    p.add_argument("--level", default="O3", type=str, choices=LEVELS)
    return p.parse_args()
args = options()
""",
    """
import argparse as ap
MODELS = {"small": 1, "large": 2}
parser = ap.ArgumentParser()
group = parser.add_argument_group("model")
group.add_argument("--depth", type=int, choices=[18, 34, 50], default=20)
args = parser.parse_args()
""",
)

GOOD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=["sgd", "adamw"], default=None)
parser.add_argument("--level", choices=["O0", "O1"], default="")
parser.add_argument("--depth", choices=[18, 34], type=int, default="18")
parser.add_argument("--parts", choices=["a", "b"], nargs="+", default=["a", "b"])
args = parser.parse_args()
""",
    """
import argparse
import models
names = sorted(n for n in models.__dict__)
parser = argparse.ArgumentParser()
parser.add_argument("--arch", choices=names, default="resnet50")
parser.add_argument("--gpu", choices=range(8), type=int, default=3)
args = parser.parse_args()
""",
    """
import argparse, importlib, os
TASKS = {}
def register(name):
    return lambda cls: TASKS.setdefault(name, cls)
@register("dummy")
class Dummy:
    pass
for file in os.listdir("tasks"):
    importlib.import_module("tasks." + file[:-3])
parser = argparse.ArgumentParser()
parser.add_argument("--task", choices=TASKS.keys(), default="translation")
args = parser.parse_args()
""",
)

_IMPORTS = ("importlib.import_module", "builtins.__import__", "pkgutil.iter_modules", "pkgutil.walk_packages")
_CONVERSIONS = {"builtins.int": int, "builtins.float": float, "builtins.str": str}


def check(context: Context) -> Iterator[Finding]:
    """Find defaults that no command line could give."""
    filled = bool(context.trace.calls(*_IMPORTS))
    for option in declared(context):
        if filled and _registry(option.event.kwargs.get("choices")):
            continue  # modules that are imported by computed names may put more into it
        choices = context.value(option.event.kwargs.get("choices"))
        default = context.value(option.default)
        if not isinstance(choices, (list, tuple, dict)) or default in (None, ""):
            continue
        wrong = [
            v
            for v in (default if isinstance(default, (list, tuple)) else [default])
            if not _allowed(option, v, choices)
        ]
        if not wrong:
            continue
        shown = ", ".join(repr(c) for c in list(choices)[:8])
        yield context.finding(
            RULE,
            option.event,
            f"the default {wrong[0]!r} of {option.label} is not one of its choices ({shown})",
            evidence=[Evidence("default", repr(wrong[0])), Evidence("choices", shown)],
            fix=Fix(
                title=f"make the default of {option.label} one of its choices",
                instruction="change the default, or add it to choices",
                expected="the code meets only values that it knows",
            ),
        )


def _registry(choices: Value | None) -> bool:
    """Whether the choices are what a dictionary or a list holds by then, and do not stand at the option itself."""
    found = settle(choices) if choices is not None else None
    written = choices.site.node if choices is not None and choices.site is not None else None
    return isinstance(found, (Dict, Seq)) and not isinstance(written, (ast.List, ast.Tuple, ast.Set, ast.Dict))


def _allowed(
    option: Declared, value: object, choices: list[object] | tuple[object, ...] | dict[object, object]
) -> bool:
    if value in choices:
        return True
    kind = option.event.kwargs.get("type")
    if isinstance(value, str) and kind is not None:
        settled = settle(kind)
        function = _CONVERSIONS.get(settled.name) if isinstance(settled, Ext) else None
        if function is None:
            return True  # converted by a function whose result is not known
        try:
            return function(value) in choices
        except ValueError:
            return False
    return False
