"""The script sets otherwise what the plan counts on.

## What it does
With `--plan FILE`, compares a script with the layout that `preflight plan` chose: parameters, the GPU, how many there are, how the model
is spread, batch, accumulation, length, precision, optimizer and recomputation.
Each difference is weighed by the plan's own arithmetic, done again with that one value of the script.

## Why
Memory, time and cost of a plan hold for the run that it describes.
A micro-batch twice as large, or states that are not sharded, is another run: it may not fit, and it costs something else.
Such a difference is an error where the plan's arithmetic no longer fits the GPU with it and the script itself is not known
to fit; else it is a warning.

## Fix
Set in the script, or on its command line, what the plan says; or make the plan again from the script:
`preflight plan --script train.py`.

## When to ignore
When the difference is meant and the plan is only used for its other figures.

## References
- The guide on plans in this documentation
"""

from __future__ import annotations

from typing import Any

from preflight.check.against_plan import PlanGiven, Setting
from preflight.check.rule import Rule
from preflight.vocabulary.fact import Fact
from preflight.vocabulary.finding import Evidence, Finding, Fix, Location, Severity
from preflight.vocabulary.memory import Fits
from preflight.vocabulary.quantity import format_bytes, format_count
from preflight.vocabulary.report import NotEvaluated

RULE = Rule(name="plan-differs", code="PLN001", severity="warning", confidence="likely", layer="S", tags=("plan",))

BAD = (
    """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, batch_first=True), 6).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.zeros(4096, 128, 512)), batch_size=64)
for (x,) in loader:
    optimizer.zero_grad()
    model(x.cuda()).sum().backward()
    optimizer.step()
""",
)
GOOD = (BAD[0].replace("batch_size=64", "batch_size=32").replace("SGD", "AdamW").replace("lr=0.1", "lr=1e-4"),)


def finding_for(one: Setting, given: PlanGiven, fact: Fact, path: str, fits: Fits, again: str) -> Finding:
    """Report one difference between a script and its plan.

    Args:
        one: What differs.
        given: The plan.
        fact: What the script says of it.
        path: The script, for what has no line.
        fits: Whether the script as a whole fits.
        again: The command that plans the script as it is.
    """
    planned, written = _shown(one, one.planned), _shown(one, one.written)
    said = f" ({fact.how})" if fact.how and one.fact != "framework" else ""
    evidence = [
        Evidence("in the plan", planned),
        Evidence("in the script" if one.whose == "the script has" else "here", written),
    ]
    severity: Severity = RULE.severity
    effect = ""
    if one.device_bytes is not None:
        before, after = one.device_bytes
        effect = f"; alone it turns the plan's {format_bytes(before)} of a GPU into {format_bytes(after)}"
        if given.capacity_bytes is not None and after > given.capacity_bytes >= before:
            severity = RULE.severity if fits == "yes" else "error"
            effect += f", more than the {format_bytes(given.capacity_bytes)} that there are"
        sign, more = ("+", after - before) if after >= before else ("-", before - after)
        arithmetic = f"{format_bytes(before)} {sign} {format_bytes(more)}"
        evidence.append(Evidence("memory of a GPU", round(after), "bytes", arithmetic=arithmetic))
    return Finding(
        rule=RULE.name, code=RULE.code, severity=severity, confidence=RULE.confidence,
        message=f"{one.what}: the plan counts on {planned}, {one.whose} {written}{said}{effect}",
        location=fact.location if fact.location is not None and one.fact != "framework" else Location(path=path),
        evidence=tuple(evidence),
        fix=Fix(
            title=_change(one, planned),
            instruction=f"{again} makes the plan of the script as it is",
            expected="script and plan describe the same run",
        ),
    )  # fmt: skip


def _change(one: Setting, planned: str) -> str:
    """Say how script and plan come together; the size of a model is no setting, so another model is another plan."""
    if one.fact == "model.parameters":
        return "take the plan that was made for this model, or plan again with the script"
    return f"set {one.what} to {planned}, or plan again with the script"


def not_compared(one: Setting) -> NotEvaluated:
    """Say that the script does not tell something that the plan settles."""
    return NotEvaluated(RULE.name, RULE.code, f"{one.what} of the script: {one.reason or 'not found'}")


def _shown(one: Setting, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format_count(value) if one.fact == "model.parameters" else f"{value:,}"
    return str(value)
