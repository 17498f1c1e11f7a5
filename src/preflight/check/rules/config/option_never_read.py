"""An option of the command line is declared and never read.

## What it does
Looks for options of argparse that no followed code reads: not as an attribute of the namespace, not by their name as text.
It is silent where the namespace is handed on as a whole to code that was not followed.

## Why
Whoever sets `--weight-decay 0.1` believes in a run with weight decay, and compares it with others.
Nothing says that the value went nowhere.

## Fix
Use the value where it belongs, or remove the option.

## When to ignore
When the option is kept so that old command lines still work.

## References
- Python documentation, argparse
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.option_reads import handed_on, read_names
from preflight.check.queries.options import Declared, declared
from preflight.check.rule import Rule
from preflight.source.values import Ext, Obj, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="option-never-read",
    code="CFG011",
    severity="info",
    confidence="likely",
    needs=("complete",),
    layer="D",
    tags=("configuration",),
)

_TRAIN = """
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
BAD = (
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--weight-decay", type=float, default=0.1)
args = parser.parse_args()
"""
    + _TRAIN,
    """
import torch
from argparse import ArgumentParser as Options
def options():
    p = Options()
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--momentum", type=float, default=0.9, help="momentum of SGD")
    return p.parse_args()
args = options()
print(vars(args))
"""
    + _TRAIN,
    """
import argparse as ap
import torch, torch.multiprocessing as mp
def main(gpu, args):
    model = torch.nn.Linear(4, 2).cuda(gpu)
    torch.optim.SGD(model.parameters(), lr=args.lr).step()
p = ap.ArgumentParser()
group = p.add_argument_group("optimizer")
group.add_argument("--lr", type=float, default=0.1)
group.add_argument("--clip", dest="clip_norm", type=float, default=1.0)
args = p.parse_args()
mp.spawn(main, nprocs=2, args=(args,))
""",
)

GOOD = (
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--width", type=int, default=4)
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
def build(lr, width, local_rank):
    return torch.nn.Linear(width, 2)
build(**vars(args))
"""
    + _TRAIN,
    """
import argparse, torch
import settings
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=0.1)
args = parser.parse_args()
settings.apply(args)
"""
    + _TRAIN,
    """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--old", type=float, default=0.1, help="deprecated")
parser.add_argument("--mode", default="a")
args = parser.parse_args()
print(getattr(args, "mode"))
"""
    + _TRAIN,
)

_KEPT = r"deprecat|ignor|unused|not used|compat|legacy|no longer|obsolete"
_ACTIONS = ("store", "store_true", "store_false", "store_const", "append", "count", "argparse.BooleanOptionalAction")
_GIVEN_BY_LAUNCHERS = ("local_rank", "f")
# Functions of libraries that look into sys.argv themselves, and the option that they look for.
_ELSEWHERE = {"torch_geometric.logging.init_wandb": "wandb"}
_MOST = 6


def check(context: Context) -> Iterator[Finding]:
    """Find options that nothing reads."""
    trace, script = context.trace, context.reading.script
    parsed = trace.calls(".parse_args", ".parse_known_args", ".parse_intermixed_args")
    if not context.reading.loops and not context.reading.made("trainer") and not context.reading.made("optimizer"):
        return
    if not parsed or any(trace.calls(n) for n in (".add_subparsers", ".add_config_arguments", ".set_defaults")):
        return
    if any(word in s.text for s in context.reading.scripts for word in ("__dict__", "_get_kwargs", "sys.argv")):
        return
    options = {o.dest: o for o in declared(context) if o.event.script is script and _plain(context, o)}
    if not options:
        return
    read = set(read_names(context, {name: o.event.node for name, o in options.items()}))
    read |= {name for call, name in _ELSEWHERE.items() if trace.calls(call)}
    unread = [o for name, o in options.items() if name not in read]
    if not unread or any(handed_on(context, holder) for holder in _namespaces(context)):
        return
    names = ", ".join(o.label for o in unread[:_MOST]) + (
        f" and {len(unread) - _MOST} more" if len(unread) > _MOST else ""
    )
    one = len(unread) == 1
    yield context.finding(
        RULE,
        unread[0].event,
        f"{names} {'is' if one else 'are'} declared and never read: setting {'it' if one else 'them'} changes nothing",
        evidence=[Evidence("options that nothing reads", len(unread), arithmetic=f"of {len(options)} declared")],
        related=[(o.event, f"{o.label} is declared here") for o in unread[1:_MOST]],
        fix=Fix(
            title="use the value, or remove the option",
            instruction=f"read {names} where {'it is' if one else 'they are'} meant, or remove the declaration",
            expected="every option that can be set has an effect",
        ),
    )


def _plain(context: Context, option: Declared) -> bool:
    """Whether an option only stores a value, and is not kept for old command lines."""
    given = option.event.kwargs.get("help")
    text = context.value(given)
    if isinstance(text, str) and re.search(_KEPT, text, re.IGNORECASE):
        return False
    if given is not None and isinstance(settle(given), Ext):
        return False  # argparse.SUPPRESS
    return option.action in _ACTIONS and option.dest not in _GIVEN_BY_LAUNCHERS and not option.event.context.shadow


def _namespaces(context: Context) -> Iterator[Obj]:
    for event in context.trace.events:
        for option in options_of(event.result, limit=3):
            if isinstance(option, Obj) and option.name == "argparse.Namespace" and option.kind == "call":
                yield option
