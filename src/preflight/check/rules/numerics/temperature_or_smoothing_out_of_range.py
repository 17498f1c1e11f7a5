"""A temperature or a label smoothing is out of range.

## What it does
Checks `label_smoothing`, temperatures of zero before a soft-max, and `exp(similarity / temperature)` of unit vectors.

## Why
A smoothing of 0.9 leaves the right class one tenth of the target: it is mostly the confidence 1 - 0.9 that was meant; above 1 PyTorch raises.
Cosines reach 1, so exp(cosine / t) reaches exp(1 / t): below t = 1 / 88.7 = 0.0113 that is infinite in float32.

## Fix
Published recipes smooth by 0.1; subtract the maximum before `exp`, or use `logsumexp` or `cross_entropy`, which do it.

## When to ignore
When hardly any signal in the targets is wanted.

## References
- Szegedy et al., "Rethinking the Inception Architecture" (2016), section 7
- Chen et al., "A Simple Framework for Contrastive Learning" (2020): temperatures of 0.05 to 1
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.queries.losses import loss_calls
from preflight.check.queries.tensors import VIEWS, graph, operand, operation, origin, second
from preflight.check.queries.trainer_settings import argument_objects, explicit
from preflight.check.rule import Rule
from preflight.source.trace import Event
from preflight.source.values import Obj, Value, plain
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="temperature-or-smoothing-out-of-range",
    code="NUM016",
    severity="warning",
    confidence="likely",
    layer="C",
    tags=("numerics", "loss"),
)

BAD = (
    """
import torch.nn as nn
net = nn.Linear(8, 10)
criterion = nn.CrossEntropyLoss(label_smoothing=0.9)
for x, y in loader:
    criterion(net(x), y).backward()
""",
    """
import argparse, torch
import torch.nn.functional as F
p = argparse.ArgumentParser()
p.add_argument("--temperature", type=float, default=0.01)
args = p.parse_args()
net = torch.nn.Linear(32, 16)
def contrast(a, b):
    a, b = F.normalize(net(a), dim=1), F.normalize(net(b), dim=1)
    similar = torch.exp(a @ b.T / args.temperature)
    return -torch.log(similar.diag() / similar.sum(1)).mean()
for a, b in loader:
    contrast(a, b).backward()
""",
    """
from dataclasses import dataclass
from torch import nn
from torch.nn.functional import cross_entropy as ce
@dataclass
class Settings:
    temperature: float = 0.0
settings = Settings()
net = nn.Linear(8, 10)
for x, y in loader:
    ce(net(x) / settings.temperature, y).backward()
""",
)

GOOD = (
    """
import torch
import torch.nn.functional as F
net = torch.nn.Linear(32, 16)
for a, b in loader:
    a, b = F.normalize(net(a), dim=1), F.normalize(net(b), dim=1)
    loss = -torch.log(torch.exp((a * b).sum(1) / 0.07) / torch.exp(a @ b.T / 0.07).sum(1)).mean()
    logits = a @ b.T / 0.01
    weights = torch.exp(logits - logits.amax(1, keepdim=True))
    free = torch.exp(net(x) / 0.01)
    (loss + F.cross_entropy(logits, torch.arange(len(a)), label_smoothing=0.1) + weights.mean() + free.mean()).backward()
""",
    """
import torch
from torch import nn
net, temperature = nn.Linear(8, 10), 0.0
def sample(x):
    logits = net(x)
    if temperature == 0:
        return logits.argmax(-1)
    return (logits / temperature).softmax(-1).multinomial(1)
for x, y in loader:
    sample(x)
    nn.CrossEntropyLoss(label_smoothing=0.2)(net(x), y).backward()
""",
)

_LARGEST_EXPONENT = 88.7  # ln(3.4e38), the largest number of float32


def check(context: Context) -> Iterator[Finding]:
    """Check smoothings, temperatures of zero, and exponentials of scaled cosines."""
    yield from _smoothing(context)
    for call in loss_calls(context, "cross_entropy"):
        yield from _zero(context, call.event, call.input, call.event.context.shadow)
    for value in [*graph(context).made("exp")]:
        yield from _exponential(context, value)


def _smoothing(context: Context) -> Iterator[Finding]:
    told: set[int] = set()
    for call in loss_calls(context, "cross_entropy"):
        place = call.criterion or call.event
        if id(place) not in told:
            told.add(id(place))
            yield from _judge(context, place, call.option("label_smoothing"))
    for arguments in argument_objects(context):
        yield from _judge(context, arguments, explicit(arguments, "label_smoothing_factor"))


def _judge(context: Context, place: Event | Obj, given: Value | None) -> Iterator[Finding]:
    value = plain(given)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or 0 <= value < 0.5:
        return
    severity: Severity = "warning"
    if not 0 <= value <= 1:
        severity, effect = "error", "PyTorch raises: it has to be between 0 and 1"
    elif value == 1:
        severity, effect = "error", "all classes have the same target, and nothing is learned"
    else:
        effect = f"the right class keeps {1 - value:.2g} of the target; the confidence may have been meant"
    yield context.finding(
        RULE,
        place,
        f"label smoothing is {value:g}: {effect}",
        severity=severity,
        evidence=[Evidence("label smoothing", value), Evidence("usual", "0 to 0.2", source="published")],
        fix=Fix(
            title="smooth less",
            instruction="give the share that is taken from the right class, usually 0.1",
            expected="the targets say which class is right",
        ),
    )


def _zero(context: Context, event: Event, value: Value | None, shadow: bool) -> Iterator[Finding]:
    """Logits that are divided by a temperature of zero."""
    found = origin(value, VIEWS, strict=shadow)
    if found is None or operation(found) not in ("/", "div") or shadow:
        return
    by = second(found)
    number = plain(by)
    if isinstance(number, bool) or number not in (0, 0.0) or not graph(context).trains(found):
        return
    yield context.finding(
        RULE,
        found,
        "the logits are divided by a temperature of 0: they are infinite, and the loss is NaN",
        severity="error",
        evidence=[Evidence("temperature", number)],
        related=[(event, "the loss is here")],
        fix=Fix(
            title="give a temperature above 0",
            instruction="use 1 for no change",
            expected="the logits are finite",
        ),
    )


def _exponential(context: Context, value: Obj) -> Iterator[Finding]:
    """``exp(cosine / temperature)``, where the cosine can be 1."""
    scaled = origin(operand(value), VIEWS)
    if scaled is None or operation(scaled) not in ("/", "div") or not graph(context).trains(value):
        return
    by = second(scaled)
    temperature = plain(by)
    if not isinstance(temperature, (int, float)) or not 0 < temperature < 1 / _LARGEST_EXPONENT:
        return
    if not _cosine(operand(scaled)):
        return
    yield context.finding(
        RULE,
        value,
        f"exp(similarity / {temperature:g}) is infinite in float32 for similar vectors: the loss is NaN",
        evidence=[
            Evidence("temperature", temperature),
            Evidence(
                "largest exponent",
                1 / temperature,
                source="derived",
                arithmetic=f"1 / {temperature:g}, from 88.7 on exp is infinite",
            ),
        ],
        fix=Fix(
            title="let a stable function take the exponential",
            instruction="use cross_entropy or logsumexp on similarity / temperature, or subtract the maximum of each row",
            expected="no exponent is above 0",
        ),
    )


def _cosine(value: Value | None) -> bool:
    """Whether a value is a product of unit vectors, which is between -1 and 1."""
    found = origin(value, VIEWS)
    name = operation(found)
    if found is None:
        return False
    if name in ("cosine_similarity", "nn.CosineSimilarity"):
        return True
    if name not in ("@", "matmul", "mm", "bmm"):
        return False
    parts = [found.receiver, *found.args] if found.kind == "call" and found.name.startswith(".") else list(found.args)
    return len(parts) >= 2 and all(operation(origin(p, VIEWS)) == "normalize" for p in parts[:2])
