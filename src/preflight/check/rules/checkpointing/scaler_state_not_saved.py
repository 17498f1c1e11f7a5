"""The state of the gradient scaler is not saved or not restored.

## What it does
Looks at scripts that go on from a checkpoint and use a gradient scaler whose state is not in the checkpoint.

## Why
A fresh scaler begins at a scale of 65536.
After a resume it has to find the right scale again: each overflow skips a step, up to a dozen in the first batches.

## Fix
Save `scaler.state_dict()` beside the model's, and call `scaler.load_state_dict()` on resume.

## When to ignore
When a few skipped steps after a resume do not matter.

## References
- PyTorch, "Automatic Mixed Precision recipe", section Saving/Resuming
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import key_of, restored, resume
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="scaler-state-not-saved",
    code="CKP003",
    severity="info",
    confidence="likely",
    needs=("scaler", "training_loop", "complete"),
    tags=("checkpoint", "precision"),
)

_TRAIN = """
for epoch in range(start, 10):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
start = 0
"""
_LOAD = """
if resume:
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["epoch"] + 1
"""
_SAVED = '"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch'

BAD = (
    f"""{_HEAD}
scaler = torch.amp.GradScaler("cuda"){_LOAD}{_TRAIN}
    torch.save({{{_SAVED}}}, "last.pt")
""",
    f"""{_HEAD}
from torch.cuda.amp import GradScaler as Scaler
def make():
    return Scaler()
scaler = make(){_LOAD}{_TRAIN}
    torch.save({{{_SAVED}, "scaler": scaler.state_dict()}}, "last.pt")
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--resume", default="")
parser.add_argument("--amp", type=int, default=1)
args = parser.parse_args()
resume = args.resume
scaler = torch.cuda.amp.GradScaler(enabled=bool(args.amp)){_LOAD}{_TRAIN}
    def write(path):
        torch.save({{{_SAVED}}}, path)
    write("last.pt")
""",
)

GOOD = (
    f"""{_HEAD}
scaler = torch.amp.GradScaler("cuda"){_LOAD}
    if "scaler" in checkpoint:
        scaler.load_state_dict(checkpoint["scaler"]){_TRAIN}
    torch.save({{{_SAVED}, "scaler": scaler.state_dict()}}, "last.pt")
""",
    f"""{_HEAD}
scaler = torch.amp.GradScaler("cuda"){_TRAIN}
    torch.save({{{_SAVED}}}, "last.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Compare what is saved with what is loaded on resume."""
    found = resume(context)
    scaler = next((s for s in context.reading.made("scaler") if s.context is None or not s.context.shadow), None)
    if scaler is None or found.start is None or not found.saves or restored(context, "model") is False:
        return
    if restored(context, "scaler") is not False:
        return
    saved = next((k for _, table in found.saves if (k := key_of(table, "scaler", context))), None)
    event, table = found.saves[0]
    if table.open and saved is None:
        return
    yield context.finding(
        RULE,
        scaler if saved else event,
        f"the state of the gradient scaler is {'saved, but never loaded' if saved else 'not in the checkpoint'}: "
        "a resumed run begins at the initial scale and skips steps until it has found the right one",
        evidence=[Evidence("entries of the checkpoint", ", ".join(map(str, table.entries)))],
        fix=Fix(
            title="save and restore the scaler's state",
            instruction="save scaler.state_dict() beside the model, and call scaler.load_state_dict() on resume",
            expected="no step is skipped after a resume",
        ),
        related=[(found.loads[0], "the checkpoint is read here")],
    )
