"""A memory map that stays open is read at random in each step.

## What it does
Looks for `np.memmap` (or `np.load` with `mmap_mode`) that is opened once and indexed in the training loop.

## Why
Pages that were read stay mapped into the process, so its resident memory grows with the part of the file that was visited, up to the size of the file.
They are clean pages that the kernel can drop, but a container's memory limit and a scheduler count them: the run can be killed although nothing leaks.

## Fix
Open the map again for each batch: that costs some microseconds and gives the pages back.

## When to ignore
When the file is small against the memory of the host, or no limit counts the resident memory.

## References
- NumPy documentation, `numpy.memmap`
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.steps import step_loops
from preflight.check.rule import Rule
from preflight.source.trace import Event, provenance
from preflight.source.values import Obj
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="memory-map-kept-open",
    code="MEM019",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("memory", "data"),
)

_STEP = """
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_HEAD = """
import numpy as np, torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BAD = (
    _HEAD
    + """
data = np.memmap("train.bin", dtype=np.uint16, mode="r")
def get_batch():
    ix = torch.randint(len(data) - 64, (8,))
    return torch.stack([torch.from_numpy(data[i:i + 64].astype(np.int64)) for i in ix])
while True:
    x = get_batch()
"""
    + _STEP,
    _HEAD
    + """
from numpy import memmap as open_map
class Tokens:
    def __init__(self, path):
        self.tokens = open_map(path, np.uint16, "r")
    def batch(self, start):
        return torch.from_numpy(self.tokens[start:start + 64].astype(np.int64))
tokens = Tokens("x.bin")
for step in range(100000):
    x = tokens.batch(step)
"""
    + _STEP,
    _HEAD
    + """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", default="x.npy")
args = parser.parse_args()
rows = np.load(args.data, mmap_mode="r")
for step in range(100000):
    x = torch.tensor(rows[step])
"""
    + _STEP,
)
GOOD = (
    _HEAD
    + """
def get_batch():
    data = np.memmap("train.bin", dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - 64, (8,))
    return torch.stack([torch.from_numpy(data[i:i + 64].astype(np.int64)) for i in ix])
while True:
    x = get_batch()
"""
    + _STEP,
    _HEAD
    + """
rows = np.load("x.npy")
table = np.array(np.memmap("y.bin", dtype=np.uint16, mode="r"))
for step in range(100000):
    x = torch.tensor(rows[step]) + torch.tensor(table[step])
"""
    + _STEP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find maps that were opened outside the training loop and are indexed inside."""
    found: set[int] = set()
    for loop in step_loops(context):
        for event in loop.events:
            for value in (*event.args, event.receiver):
                opened = _map(context, value)
                if opened is None or id(opened) in found or opened.context.within(loop.frame):
                    continue
                found.add(id(opened))
                yield context.finding(
                    RULE,
                    opened,
                    "a memory map that is opened once is read in each step: the pages that were visited stay mapped, and the process's memory grows towards the size of the file",
                    evidence=[Evidence("opened in the loop", False)],
                    related=[(event, "read here in each step")],
                    fix=Fix(
                        title="open the memory map again for each batch",
                        instruction="call np.memmap where the batch is cut out of it",
                        expected="visited pages are given back after each batch",
                    ),
                )


def _map(context: Context, value: object) -> Event | None:
    """The call that opened the map which a value is an item of."""
    if not isinstance(value, Obj) or value.kind != "item":
        return None
    for part in provenance(value.receiver, 20):
        if isinstance(part, Obj) and part.kind == "call":
            if part.name == "numpy.memmap" or (part.name == "numpy.load" and "mmap_mode" in part.kwargs):
                return context.reading.event_of(part)
            return None
    return None
