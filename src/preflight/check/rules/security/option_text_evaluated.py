"""Text from the command line is run as code.

## What it does
Looks for `eval` or `exec` of text that comes from an option.

## Why
Whoever can set the option, through a job file, a sweep or a web form, can run any code.
A mistyped value gives a NameError far from its cause, or silently picks up a name of the script.

## Fix
Use `ast.literal_eval` for numbers and lists, and a dictionary for names of classes or functions.

## When to ignore
When only you run the script, by hand.

## References
- Python, `ast.literal_eval`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.trace import Event, parents_of
from preflight.source.values import Dict, Known, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="option-text-evaluated",
    code="SEC005",
    severity="warning",
    confidence="likely",
    tags=("security", "command line"),
)

BAD = (
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--sizes", type=str, default="[64, 128]")
args = parser.parse_args()
sizes = eval(args.sizes)
""",
    """
import sys
def settings():
    return eval(sys.argv[1])
settings()
""",
    """
import argparse
from torch import nn
def build(options):
    return eval("nn." + options.activation)()
parser = argparse.ArgumentParser()
parser.add_argument("--activation", default="ReLU")
build(parser.parse_args())
""",
)

GOOD = (
    """
import argparse, ast
parser = argparse.ArgumentParser()
parser.add_argument("--sizes", type=str, default="[64, 128]")
args = parser.parse_args()
sizes = ast.literal_eval(args.sizes)
""",
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
model.eval()
name = "nn.ReLU"
layer = eval(name)()
""",
    """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--activation", default="relu", choices=["relu", "gelu"])
args = parser.parse_args()
layer = eval("make_" + args.activation)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find evaluated text that an option gives."""
    for event in context.trace.calls("builtins.eval", "builtins.exec"):
        if not event.args:
            continue
        option = _option(context, event)
        if option is not None:
            yield _finding(context, event, option)


_TEXT = frozenset({".strip", ".lower", ".upper", ".replace", ".format", ".join", ".split", ".title", "builtins.str"})


def _texts(value: Value, limit: int = 60) -> Iterator[Value]:
    """A text and what it was put together from; what a file or another call gives is not entered."""
    queue, seen = [value], {id(value)}
    while queue and len(seen) < limit:
        current = queue.pop(0)
        yield current
        if isinstance(current, Dict) or (
            isinstance(current, Obj) and current.kind != "op" and current.name not in _TEXT
        ):
            continue  # of a table of settings, one entry says nothing about the others
        for parent in parents_of(current):
            if id(parent) not in seen:
                seen.add(id(parent))
                queue.append(parent)


def _option(context: Context, event: Event) -> str | None:
    """The option that the text comes from; None where there is none, or where it has only a few choices."""
    for part in _texts(event.args[0]):
        if isinstance(part, Known) and part.soft and str(part.how or "").startswith(("default of -", "-")):
            flag = str(part.how).removeprefix("default of ")
            return None if _few(context, flag) else flag
        if isinstance(part, Obj) and part.name == "argparse.option" and part.args:
            name = settle(part.args[0])
            flag = f"--{name.value}" if isinstance(name, Known) else "an option"
            return None if _few(context, flag) else flag
        site = part.site.node if part.site is not None else None
        if getattr(part, "kind", None) == "argv" or (isinstance(site, ast.Attribute) and _is_argv(site)):
            return "sys.argv"
    return None


def _is_argv(node: ast.Attribute) -> bool:
    return node.attr == "argv" and isinstance(node.value, ast.Name) and node.value.id == "sys"


def _few(context: Context, flag: str) -> bool:
    """Whether an option accepts only some given values."""
    for event in context.trace.calls(".add_argument"):
        if any(isinstance(v := settle(a), Known) and v.value == flag for a in event.args):
            return "choices" in event.kwargs or ("type" in event.kwargs and _number(event))
    return False


def _number(event: Event) -> bool:
    return getattr(settle(event.kwargs["type"]), "name", "") in ("builtins.int", "builtins.float", "builtins.bool")


def _finding(context: Context, event: Event, option: str) -> Finding:
    name = event.name.rpartition(".")[2]
    return context.finding(
        RULE,
        event,
        f"{name}() runs text that comes from {option}: whoever sets it runs any code",
        evidence=[Evidence("where the text comes from", option)],
        fix=Fix(
            title="parse the text instead of running it",
            instruction="use ast.literal_eval for numbers and lists, and a dictionary for names",
            expected="an option is only data",
        ),
    )
