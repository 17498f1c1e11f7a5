"""Checkpoints for resuming are written, but never read.

## What it does
Looks for checkpoints that hold the state of the optimizer, in a script that never loads one.

## Why
The optimizer's state is only of use to a run that goes on.
It makes an Adam checkpoint three times as large as the model, and a run that is interrupted still begins anew.

## Fix
Add a way to resume (`--resume`), or save only the model.

## When to ignore
When another script resumes from these files.

## References
- PyTorch, "Saving and loading a general checkpoint for inference and/or resuming training"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.states import key_of, resume
from preflight.check.rule import Rule
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="checkpoint-never-read",
    code="CKP006",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    tags=("checkpoint",),
)

_TRAIN = """
for epoch in range(10):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.Adam(model.parameters())
"""

BAD = (
    f"""{_HEAD}{_TRAIN}
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
    f"""{_HEAD}
from torch import save as write
def keep(net, opt, path):
    write(dict(net=net.state_dict(), opt=opt.state_dict()), path){_TRAIN}
keep(model, optimizer, "last.pt")
""",
    f"""{_HEAD}
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--out", default="last.pt")
args = parser.parse_args()
class Keeper:
    def __call__(self, epoch):
        state = {{"epoch": epoch, "model": model.state_dict()}}
        state["optimizer"] = optimizer.state_dict()
        torch.save(state, args.out)
keeper = Keeper(){_TRAIN}
    keeper(epoch)
""",
)

GOOD = (
    f"""{_HEAD}{_TRAIN}
torch.save(model.state_dict(), "last.pt")
""",
    f"""{_HEAD}
if resume:
    checkpoint = torch.load("last.pt")
    optimizer.load_state_dict(checkpoint["optimizer"]){_TRAIN}
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
""",
)

_READS = (
    "torch.load", "safetensors.torch.load_file", ".load_state", ".load_checkpoint", "torch.distributed.checkpoint.load",
    ".load_state_dict", ".restore", "pickle.load", "joblib.load",
)  # fmt: skip


def check(context: Context) -> Iterator[Finding]:
    """Find states of optimizers that are saved and never loaded."""
    if context.trace.calls(*_READS):
        return
    for event, table in resume(context).saves[:1]:
        key = key_of(table, "optimizer", context)
        if key is None or event.context.shadow:
            continue
        yield context.finding(
            RULE,
            event,
            f'the checkpoint holds the state of the optimizer ("{key}"), but the script never loads one: '
            "an interrupted run begins anew",
            evidence=[
                Evidence("calls that load a checkpoint", 0),
                Evidence("entries", ", ".join(map(str, table.entries))),
            ],
            fix=Fix(
                title="add a way to resume",
                instruction="load the states when a path is given, or save only model.state_dict()",
                expected="an interrupted run goes on where it stopped",
            ),
        )
