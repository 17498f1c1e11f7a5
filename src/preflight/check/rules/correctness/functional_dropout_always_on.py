"""Functional dropout stays on in evaluation.

## What it does
Reports `F.dropout(x)` and its two- and three-dimensional kin in a model without the `training` argument.

## Why
The default of `training` is True, whatever mode the model is in.
`model.eval()` does not reach it: with p = 0.5, half of the activations are dropped in every evaluation and in production, and results change from call to call.

## Fix
Pass `training=self.training`, or use an `nn.Dropout` module.

## When to ignore
When dropout in evaluation is wanted, as for Monte-Carlo dropout; say so with `training=True`.

## References
- PyTorch documentation of torch.nn.functional.dropout
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.rule import Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event, provenance
from preflight.source.values import Func, Obj, options_of, plain
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="functional-dropout-always-on",
    code="MOD004",
    severity="error",
    confidence="certain",
    layer="D",
    tags=("modes",),
)

BAD = (
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        return self.fc(F.dropout(x, 0.5))
""",
    """
import torch
from torch.nn.functional import dropout2d as drop
class Net(torch.nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.p, self.conv = p, torch.nn.Conv2d(3, 8, 3)
    def head(self, x):
        return drop(x, p=self.p)
    def forward(self, x):
        return self.head(self.conv(x))
net = Net()
for x, y in loader:
    net(x).mean().backward()
""",
    """
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--dropout", type=float, default=0.2)
args = p.parse_args()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
    def forward(self, x):
        h = torch.relu(self.a(x))
        h = torch.nn.functional.dropout(h, args.dropout)
        return self.b(h)
net = Net()
""",
)

GOOD = (
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)
    def forward(self, x):
        if self.training:
            x = F.dropout(x, 0.5)
        x = F.dropout(x, 0.5, self.training)
        return self.fc(F.alpha_dropout(x, 0.1))
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.p, self.fc = 0.5, nn.Linear(8, 2)
    def forward(self, x):
        return self.fc(F.dropout(x, self.p if self.training else 0.0))
""",
    """
import torch.nn.functional as F
def augment(tokens, options):
    return F.dropout(tokens, **options)
""",
    """
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 2)
    def forward(self, x):
        return self.layer(x)
    def training_step(self, batch):
        return F.cross_entropy(self(F.dropout(batch[0], 0.1)), batch[1])
Net().training_step(batch)
""",
)

_NAMES = tuple(f"torch.nn.functional.{n}" for n in ("dropout", "dropout1d", "dropout2d", "dropout3d"))


def check(context: Context) -> Iterator[Finding]:
    """Look for functional dropout without its mode."""
    for event in context.trace.calls(*_NAMES):
        if event.argument(2, "training") is not None or getattr(event.result, "open_args", False):
            continue
        module = _module(event)
        given = event.argument(1, "p")
        rate = plain(given, None) if given is not None else 0.5
        if (
            module is None
            or _only_trains(event)
            or _depends_on_mode(event)
            or any(plain(o) == 0 for o in options_of(given))
        ):
            continue
        positional = len(getattr(event.node, "args", ())) < 4
        edit = context.add_argument(event, "training=self.training") if positional and _has_self(event) else None
        yield context.finding(
            RULE,
            event,
            f"{event.name.rpartition('.')[2]} without training= is always on: "
            f"evaluation drops {f'{rate:.0%}' if isinstance(rate, float) else 'a share'} of the activations too",
            evidence=[
                Evidence("training", True, source="published", arithmetic="default of the function"),
                Evidence("p", rate if isinstance(rate, (int, float)) else None),
            ],
            fix=Fix(
                title="follow the mode of the model",
                edits=edits(edit) if edit is not None else (),
                instruction="pass training=self.training",
                expected="evaluation gives the same result each time",
            ),
        )


def _module(event: Event) -> Obj | None:
    """The module whose code the call is in."""
    for frame in event.context.frames():
        if frame.kind == "call" and isinstance(frame.value, Func) and frame.value.owner is not None:
            probe = Obj("instance", "", None, None, cls=frame.value.owner)
            return probe if is_module(probe) else None
    return None


def _only_trains(event: Event) -> bool:
    """Whether the call stands in a method that frameworks call in training only: dropping there augments."""
    inner = next(
        (f.value for f in event.context.frames() if f.kind in ("call", "root") and isinstance(f.value, Func)), None
    )
    return inner is not None and inner.qualname.endswith((".training_step", ".train_step"))


def _has_self(event: Event) -> bool:
    for frame in event.context.frames():
        if frame.kind == "call" and isinstance(frame.value, Func):
            args = frame.value.node.args.args
            return frame.value.owner is not None and bool(args) and args[0].arg == "self"
    return False


def _depends_on_mode(event: Event) -> bool:
    """Whether a branch around the call, or its rate, asks for the mode."""
    tests = [f.value for f in event.context.frames() if f.kind == "if" and f.value is not None]
    tests.extend(a for a in (*event.args[1:], *event.kwargs.values()))
    for value in tests:
        for part in provenance(value, 60):
            if isinstance(part, Obj) and part.kind == "attr" and part.name == "training":
                return True
        if any(getattr(getattr(o, "test", None), "name", "") == "training" for o in provenance(value, 60)):
            return True
    return False
