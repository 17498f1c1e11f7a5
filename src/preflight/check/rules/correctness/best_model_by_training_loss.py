"""The best model is chosen by the training loss, although there is a validation loss.

## What it does
Looks for checkpoints that are guarded by the loss of the training loop, in an epoch that also evaluates the model.

## Why
The training loss falls as long as the model memorises.
Early stopping on it never stops, and the "best" model is the one that overfits most.

## Fix
Compare the validation loss.

## When to ignore
When the data are never repeated, as in one epoch over a large corpus.

## References
- Prechelt, "Early Stopping - But When?", 1998
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.backward_graph import grad_mode
from preflight.check.queries.metrics import added, bare
from preflight.check.rule import Rule
from preflight.source.trace import Context as Frame
from preflight.source.trace import Event, provenance
from preflight.source.training import TrainingLoop
from preflight.source.values import Obj, Unknown, Value, options_of, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="best-model-by-training-loss",
    code="MET004",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
    tags=("metric", "checkpoint"),
)

_HEAD = """
import torch
from torch import nn
model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 1e9
"""
_TRAIN = """
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
"""
_TEST = """
    model.eval()
    valid = 0.0
    with torch.no_grad():
        for x, y in test_loader:
            valid += nn.functional.cross_entropy(model(x), y).item()
    model.train()
"""

BAD = (
    f"""{_HEAD}
for epoch in range(10):{_TRAIN}{_TEST}
    if total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
""",
    f"""{_HEAD}
import copy
for epoch in range(10):{_TRAIN}{_TEST}
    mean = total / len(loader)
    if mean < best:
        best = mean
        state = copy.deepcopy(model.state_dict())
""",
    f"""{_HEAD}
def train():{_TRAIN}
    return total / len(loader)
@torch.no_grad()
def test():
    valid = 0.0
    for x, y in test_loader:
        valid += nn.functional.cross_entropy(model(x), y).item()
    return valid
for epoch in range(10):
    now = train()
    print(test())
    if best > now:
        best = now
        torch.save({{"model": model.state_dict()}}, "best.pt")
""",
)

GOOD = (
    f"""{_HEAD}
for epoch in range(10):{_TRAIN}{_TEST}
    if valid < best:
        best = valid
        torch.save(model.state_dict(), "best.pt")
""",
    f"""{_HEAD}
for epoch in range(10):{_TRAIN}
    if total < best:
        best = total
        torch.save(model.state_dict(), "best.pt")
""",
)


def check(context: Context) -> Iterator[Finding]:
    """Find guards of checkpoints that look at the training loss."""
    told: set[int] = set()
    for event in context.trace.calls("torch.save", ".state_dict"):
        for frame in event.context.frames():
            if frame.kind != "if" or frame.polarity is not True or id(frame.node) in told:
                continue
            loop = _of_training(context, frame)
            if loop is not None and _evaluates(context, loop, frame):
                told.add(id(frame.node))
                yield _finding(context, event, loop)


def _of_training(context: Context, frame: Frame) -> TrainingLoop | None:
    """The loop whose loss a test compares with what earlier epochs left."""
    test = settle(frame.value) if frame.value is not None else None
    if not isinstance(test, Obj) or test.name not in ("<", "<=", ">", ">=") or len(test.args) != 2:
        return None
    for one, other in ((test.args[0], test.args[1]), (test.args[1], test.args[0])):
        if any(isinstance(o, Unknown) and o.reason.startswith("changes ") for o in options_of(other)):
            return _summed(context, one)
    return None


def _summed(context: Context, value: Value) -> TrainingLoop | None:
    """The training loop whose losses a value adds up."""
    for part in provenance(value, 8):
        found = added(context, part)
        if found is None or found[1] is None:
            continue
        inner = bare(found[0])
        for loop in context.reading.loops:
            if loop.frame is found[1].frame and any(bare(loss) is inner for loss in loop.losses()):
                return loop
    return None


def _evaluates(context: Context, loop: TrainingLoop, frame: Frame) -> bool:
    """Whether the epoch also runs the model without gradients."""
    if not loop.outer:
        return False
    models = {id(m) for m in context.reading.models}
    for event in context.trace.calls("()"):
        if event.receiver is None or id(settle(event.receiver)) not in models or event.context.within(loop.frame):
            continue
        if event.context.within(loop.outer[0]) and grad_mode(event.context) is False:
            return True
    return False


def _finding(context: Context, event: Event, loop: TrainingLoop) -> Finding:
    return context.finding(
        RULE,
        event,
        "the best model is chosen by the training loss, although the epoch also evaluates the model: "
        "the one that overfits most wins",
        evidence=[Evidence("what the test compares", "the loss of the training loop")],
        fix=Fix(
            title="compare the validation loss",
            instruction="return the loss from the evaluation, and compare that",
            expected="the model that generalises best is kept",
        ),
        related=[(loop.backwards[0], "the loss of training")],
    )
