"""A loss with reduction='none' is never reduced.

## What it does
Follows the value that `backward()` is called on to a loss with `reduction='none'`, with nothing on the way that makes it one number.

## Why
`backward()` without an argument needs one number.
With a loss per example it stops in the first step: "grad can be implicitly created only for scalar outputs".

## Fix
Reduce it: `loss.mean()`, or the weighted mean that `reduction='none'` was chosen for.

## When to ignore
When the batch holds exactly one number.

## References
- PyTorch documentation of Tensor.backward
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import LossCall, is_loss, loss_calls
from preflight.check.queries.shapes import rank, width
from preflight.check.queries.tensors import VIEWS, operation, origin
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(name="loss-never-reduced", code="LOS007", severity="error", confidence="certain", layer="D", tags=("loss",))

BAD = (
    """
import torch.nn as nn
model = nn.Linear(8, 3)
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
""",
    """
import torch.nn.functional as F
from torch.nn import Linear
net = Linear(8, 1)
def compute(x, y, steps):
    return F.mse_loss(net(x), y, reduction="none") / steps
for x, y in loader:
    compute(x, y, 4).backward()
""",
    """
import argparse
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--reduction", default="none")
args = p.parse_args()
class Task:
    def __init__(self):
        self.net = nn.Linear(8, 1)
        self.l1 = nn.L1Loss(reduction=args.reduction)
    def fit(self):
        for x, y in loader:
            loss = self.l1(self.net(x), y)
            (0.5 * loss).backward()
Task().fit()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
measure = nn.MSELoss(reduction="none")
for x, y in DataLoader(samples, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    measure(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator()
model, loader = accelerator.prepare(nn.Linear(8, 3), loader)
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    accelerator.backward(criterion(model(x), y))
""",
    """
import torch
from torch import nn
model = nn.Linear(8, 3)
scaler = torch.amp.GradScaler("cuda")
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    loss = criterion(model(x), y)
    scaler.scale(loss / 4).backward()
""",
)

GOOD = (
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
measure = nn.MSELoss(reduction="none")
for x, y in DataLoader(samples, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    measure(model(x), y).backward()
    optimizer.step()
""",
    """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
measure = nn.CrossEntropyLoss(reduction="none")
for x, y in DataLoader(samples, batch_size=1, shuffle=True):
    optimizer.zero_grad()
    measure(model(x), y).backward()
    optimizer.step()
""",
    """
import torch.nn as nn
model = nn.Linear(8, 3)
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y, w in loader:
    loss = (criterion(model(x), y) * w).sum() / w.sum()
    loss.backward()
""",
    """
import torch, torch.nn as nn
model = nn.Linear(8, 3)
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward(torch.ones_like(loss))
""",
    """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator()
scaler = torch.amp.GradScaler("cuda")
model, loader = accelerator.prepare(nn.Linear(8, 3), loader)
criterion = nn.CrossEntropyLoss(reduction="none")
for x, y in loader:
    loss = criterion(model(x), y)
    accelerator.backward(loss.mean())
    scaler.scale(criterion(model(x), y).mean()).backward()
    accelerator.backward(loss, gradient=torch.ones_like(loss))
""",
)

_SCALING = frozenset({"*", "/", "+", "-", "neg"})


def check(context: Context) -> Iterator[Finding]:
    """Follow each backward to a loss per example."""
    unreduced = {id(c.event.result): c for c in loss_calls(context) if c.reduction == "none"}
    if context.fact("batch.micro") == 1:  # one number per example is one number
        unreduced = {key: call for key, call in unreduced.items() if _several_each(call)}
    if not unreduced:
        return
    for event in context.trace.calls(".backward"):
        loss = _alone(context, event)
        if loss is None:
            continue
        call = next((unreduced[id(o)] for o in _terms(loss) if id(o) in unreduced), None)
        if call is None:
            continue
        yield context.finding(
            RULE,
            event,
            f"backward is called on {call.name} with reduction='none', which gives one number per example: "
            "it stops in the first step",
            evidence=[Evidence("reduction", "none")],
            related=[(call.event, "the loss per example is computed here")],
            fix=Fix(
                title="reduce the loss to one number",
                instruction="call .mean() on the loss before backward()",
                expected="backward gets one number",
            ),
        )


def _alone(context: Context, event: Event) -> Value | None:
    """The loss of a backward to which no gradient is handed: of a tensor, or of what hands it on to one."""
    if event.kwargs:
        return None
    if context.roles.of(event.receiver) in ("accelerator", "fabric"):
        return event.args[0] if len(event.args) == 1 else None
    if event.args or event.receiver is None:
        return None
    scaled = settle(event.receiver)
    if isinstance(scaled, Obj) and scaled.name == ".scale" and len(scaled.args) == 1:
        return scaled.args[0] if context.roles.of(scaled.receiver) == "scaler" else None
    return event.receiver


def _several_each(call: LossCall) -> bool:
    """Whether a loss has several numbers for each example: one for each output, or for each place of what is classified."""
    if call.kind in ("cross_entropy", "nll_loss"):
        return any((rank(one) or 0) > least for one, least in ((call.input, 2), (call.target, 1)))
    return any((width(one) or 0) > 1 for one in (call.input, call.target) if (rank(one) or 2) > 1)


def _terms(value: Value) -> Iterator[Obj]:
    """What a loss is made of through scaling and sums, when every part stays as large as it was."""
    found = origin(value, VIEWS, strict=True)
    if found is None:
        return
    if is_loss(found):
        yield found
    elif operation(found) in _SCALING:
        for arg in found.args:
            yield from _terms(settle(arg))
