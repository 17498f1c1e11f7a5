"""Accelerate divides the loss for an accumulation that does not happen.

## What it does
Looks for `Accelerator(gradient_accumulation_steps=N)` with N above 1 and a training loop without `with accelerator.accumulate(model):`.

## Why
`accelerator.backward` divides every loss by N.
Without `accumulate` the optimizer still steps after each batch: the batch is N times smaller than planned and the gradient N times too small.

## Fix
Put the body of the loop into `with accelerator.accumulate(model):`.

## When to ignore
When the loop counts batches itself and divides nothing; such loops are not reported when the step is guarded.

## References
- Hugging Face documentation, accelerate, "Performing gradient accumulation"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.training import guarded_more
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="accumulation-without-accumulate",
    code="ACL005",
    severity="error",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="D",
    tags=("accelerate", "accumulation"),
)

_MAIN = """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator(gradient_accumulation_steps=4)
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
"""

BAD = (
    _MAIN,
    _MAIN.replace(
        "from accelerate import Accelerator",
        "import argparse\nimport accelerate as hf\np = argparse.ArgumentParser()\n"
        'p.add_argument("--accumulate", type=int, default=8)\nargs = p.parse_args()',
    ).replace(
        "Accelerator(gradient_accumulation_steps=4)", "hf.Accelerator(gradient_accumulation_steps=args.accumulate)"
    ),
    _MAIN.replace("    accelerator.backward(loss)\n    optimizer.step()\n", "    update(loss)\n").replace(
        "for x, y in loader:",
        "def update(loss):\n    accelerator.backward(loss)\n    optimizer.step()\nfor x, y in loader:",
    ),
)

GOOD = (
    _MAIN.replace(
        "    optimizer.zero_grad()\n    loss = nn.functional.cross_entropy(model(x), y)\n    accelerator.backward(loss)\n    optimizer.step()",
        "    with accelerator.accumulate(model):\n        optimizer.zero_grad()\n        loss = nn.functional.cross_entropy(model(x), y)\n"
        "        accelerator.backward(loss)\n        optimizer.step()",
    ),
    _MAIN.replace("gradient_accumulation_steps=4", "gradient_accumulation_steps=1"),
    _MAIN.replace("for x, y in loader:", "for i, (x, y) in enumerate(loader):").replace(
        "    optimizer.step()", "    if i % 4 == 3:\n        optimizer.step()"
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find divided losses whose optimizer steps on every batch."""
    if context.trace.calls(".accumulate"):
        return
    for accelerator in context.reading.made("accelerator"):
        steps = context.value(accelerator.kwargs.get("gradient_accumulation_steps"))
        if not isinstance(steps, int) or steps <= 1 or (accelerator.context is not None and accelerator.context.shadow):
            continue
        for loop in context.reading.loops:
            mine = [s for s in loop.steps if context.roles.of(s.receiver) == "optimizer"]
            if loop.micro is not None or not mine or context.roles.of(loop.backwards[0].receiver) != "accelerator":
                continue
            if any(guarded_more(s, loop.frame) for s in mine) or loop.frame.shadow:
                continue
            yield context.finding(
                RULE,
                loop.backwards[0],
                f"accelerator.backward() divides the loss by {steps}, but the optimizer steps after every batch: nothing accumulates",
                evidence=[
                    Evidence(
                        "gradient_accumulation_steps",
                        steps,
                        arithmetic=f"each step uses 1/{steps} of the gradient of one batch",
                    )
                ],
                fix=Fix(
                    title="accumulate inside accelerator.accumulate(model)",
                    instruction="put the body of the loop into: with accelerator.accumulate(model):",
                    expected=f"the optimizer steps once per {steps} batches",
                ),
                related=[(accelerator, "the number of steps is given here")],
            )
            return
