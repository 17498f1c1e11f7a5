"""A whole module is pickled instead of its weights.

## What it does
Looks for `torch.save(model, path)`.

## Why
Pickle stores the name and path of the class, not its code.
A moved file, a renamed class or another version of PyTorch makes the checkpoint unreadable.
Since PyTorch 2.6 `torch.load` refuses such files by default, because reading them runs code from the file.

## Fix
Save `model.state_dict()`, and load it into a model that the code builds.

## When to ignore
When the file is only read by the same program on the same day.

## References
- PyTorch, "Saving and Loading Models", section "Save/Load Entire Model"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event
from preflight.source.values import Dict, Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="whole-module-pickled", code="CKP004", severity="info", confidence="likely", layer="S", tags=("checkpoint",)
)

BAD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
torch.save(model, "model.pt")
""",
    """
import argparse
from torch import nn, save as write
parser = argparse.ArgumentParser()
parser.add_argument("--out", default="model.pt")
args = parser.parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
def store(net):
    write(net, args.out)
store(Net())
""",
    """
import torch
import torchvision
class Job:
    def __init__(self):
        self.net = torchvision.models.resnet18()
    def save(self, epoch):
        torch.save({"epoch": epoch, "net": self.net}, "net.pt")
Job().save(3)
""",
)

GOOD = (
    """
import torch
from torch import nn
model = nn.Linear(10, 2)
torch.save(model.state_dict(), "model.pt")
torch.save({"model": model.state_dict(), "weight": model.weight}, "all.pt")
""",
    """
import torch
from torch import nn
model = torch.jit.script(nn.Linear(10, 2))
model.save("model.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find modules that are given to torch.save."""
    for event in context.trace.calls("torch.save"):
        if not event.args or event.context.shadow:
            continue
        whole = settle(event.args[0])
        if _module(context, whole):
            yield _finding(context, event, None)
        elif isinstance(whole, Dict):
            key = next((str(k) for k, v in whole.entries.items() if _module(context, settle(v))), None)
            if key is not None:
                yield _finding(context, event, key)


def _module(context: Context, value: Value) -> bool:
    return isinstance(value, Obj) and value.kind in ("call", "instance", "copy") and is_module(value)


def _finding(context: Context, event: Event, key: str | None) -> Finding:
    what = f'entry "{key}" is a module' if key else "a module is pickled as a whole"
    argument = getattr(event.node, "args", [None])[0]
    edit = None
    if key is None and argument is not None:
        edit = context.replace((event.script, argument), event.script.segment(argument) + ".state_dict()")
    return context.finding(
        RULE,
        event,
        f"{what}: the file can only be read where the same classes lie at the same paths, "
        "and not at all with torch.load's default since PyTorch 2.6",
        evidence=[Evidence("what is saved", f'"{key}"' if key else "the module")],
        fix=Fix(
            title="save the state_dict()",
            edits=edits(edit) if edit is not None else (),
            instruction="save model.state_dict(), and load it with model.load_state_dict()",
            expected="the checkpoint outlives the code that wrote it",
        ),
    )
