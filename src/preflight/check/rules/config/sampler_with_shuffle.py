"""Loader gets a sampler and shuffle together.

## What it does
Looks for `DataLoader(..., sampler=sampler, shuffle=True)`, also where the sampler is only made in a distributed run.

## Why
`DataLoader` raises ValueError: a sampler already decides the order.
Where the sampler depends on an option, the script works on one GPU and fails when it is launched on several.

## Fix
Use `shuffle=sampler is None`.

## When to ignore
Never: the call cannot succeed with these values.

## References
- PyTorch documentation, torch.utils.data.DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Choice, Ext, Known, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="sampler-with-shuffle",
    code="CFG010",
    severity="error",
    confidence="certain",
    layer="S",
    tags=("data", "configuration"),
)

BAD = (
    """
from torch.utils.data import DataLoader, RandomSampler
loader = DataLoader(dataset, sampler=RandomSampler(dataset), shuffle=True)
""",
    """
import torch.utils.data as data
def build(dataset, n_gpus):
    sampler = data.distributed.DistributedSampler(dataset) if n_gpus > 1 else None
    return data.DataLoader(dataset, 8, shuffle=True, sampler=sampler)
build(dataset, count())
""",
    """
import argparse
from torch.utils.data import DataLoader as DL, WeightedRandomSampler
p = argparse.ArgumentParser()
p.add_argument("--balance", action="store_true")
args = p.parse_args()
sampler = None
if args.balance:
    sampler = WeightedRandomSampler(weights, 100)
loader = DL(dataset, 8, True, sampler)
""",
)

GOOD = (
    """
import argparse
from torch.utils.data import DataLoader, DistributedSampler
p = argparse.ArgumentParser()
p.add_argument("--distributed", action="store_true")
args = p.parse_args()
sampler = DistributedSampler(dataset) if args.distributed else None
loader = DataLoader(dataset, shuffle=(sampler is None), sampler=sampler)
other = DataLoader(dataset, shuffle=not args.distributed, sampler=sampler)
""",
    """
from torch.utils.data import DataLoader, DistributedSampler
def build(dataset, distributed):
    if distributed:
        sampler = DistributedSampler(dataset)
        shuffle = False
    else:
        sampler, shuffle = None, True
    return DataLoader(dataset, shuffle=shuffle, sampler=sampler)
build(dataset, query())
plain = DataLoader(dataset, shuffle=True, sampler=None)
ordered = DataLoader(dataset, shuffle=False, sampler=custom)
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find loaders that raise because both are given."""
    for event in context.trace.calls("torch.utils.data.DataLoader"):
        shuffle, sampler = event.argument(2, "shuffle"), event.argument(3, "sampler")
        if shuffle is None or sampler is None or not _always(shuffle):
            continue
        given = [o for o in options_of(sampler) if not isinstance(o, (Known, Ext)) and context.roles.of(o) == "sampler"]
        if not given:
            continue
        alternatives = [o for o in options_of(sampler) if isinstance(o, Known) and o.value is None]
        when = " when the sampler is used" if alternatives else ""
        yield context.finding(
            RULE,
            event,
            f"this DataLoader gets a sampler together with shuffle=True, which raises ValueError{when}",
            evidence=[Evidence("shuffle", True), Evidence("sampler", _name(given[0]))],
            fix=_fix(context, event, bool(alternatives)),
            related=[(given[0], "the sampler")],
        )


def _always(shuffle: Value) -> bool:
    """Whether shuffle is on whatever the options are: a value that depends on one may follow the sampler."""
    if isinstance(shuffle, Choice):
        return all(isinstance(o, Known) and o.value is True for o in shuffle.options)
    base = settle(shuffle)
    return isinstance(base, Known) and base.value in (True, 1) and not base.soft


def _name(value: object) -> str:
    return str(getattr(value, "name", "")).rpartition(".")[2]


def _fix(context: Context, event: Event, optional: bool) -> Fix:
    node = event.node
    keywords = {k.arg: k for k in getattr(node, "keywords", [])}
    edit = None
    if "shuffle" in keywords and "sampler" in keywords:
        text = event.script.segment(keywords["sampler"].value)
        new = f"{text} is None" if optional else "False"
        edit = context.replace((event.script, keywords["shuffle"].value), new)
    return Fix(
        title="shuffle only when there is no sampler",
        edits=edits(edit) if edit is not None else (),
        instruction="use shuffle=(sampler is None)",
        expected="the loader is built in both cases",
    )
