"""Own GradScaler beside accelerate's mixed precision.

## What it does
Looks for `torch.amp.GradScaler` around a loss that also goes through `accelerator.backward`.

## Why
With `mixed_precision="fp16"` accelerate scales the loss and unscales the gradients itself.
A second scaler multiplies the loss twice and unscales once: gradients are up to 65,536 times too large, and overflow checks of both interfere.

## Fix
Drop the own scaler and autocast; set `mixed_precision` on the Accelerator.

## When to ignore
Never in one loop.

## References
- Hugging Face documentation, accelerate, "Mixed precision"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Rule
from preflight.source.training import same_guards
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="own-scaler-with-accelerator",
    code="ACL004",
    severity="error",
    confidence="likely",
    needs=("training_loop",),
    layer="D",
    tags=("accelerate", "precision"),
)

_MAIN = """
import torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator(mixed_precision="fp16")
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(scaler.scale(loss))
    scaler.step(optimizer)
    scaler.update()
"""

BAD = (
    _MAIN,
    _MAIN.replace('torch.amp.GradScaler("cuda")', "Scaler()").replace(
        "import torch\n", "import torch\nfrom torch.cuda.amp import GradScaler as Scaler\n", 1
    ),
    _MAIN.replace(
        "    accelerator.backward(scaler.scale(loss))\n    scaler.step(optimizer)\n    scaler.update()\n",
        "    update(loss)\n",
    ).replace(
        "for x, y in loader:",
        "def update(loss):\n    accelerator.backward(loss)\n    scaler.step(optimizer)\n    scaler.update()\nfor x, y in loader:",
    ),
)

GOOD = (
    _MAIN.replace("accelerator.backward(scaler.scale(loss))", "accelerator.backward(loss)")
    .replace("    scaler.step(optimizer)\n    scaler.update()\n", "    optimizer.step()\n")
    .replace('scaler = torch.amp.GradScaler("cuda")\n', ""),
    _MAIN.replace("accelerator.backward(scaler.scale(loss))", "scaler.scale(loss).backward()"),
    _MAIN.replace(
        "    accelerator.backward(scaler.scale(loss))\n    scaler.step(optimizer)\n    scaler.update()\n",
        """    if accelerator is not None:
        accelerator.backward(loss)
    else:
        scaler.scale(loss).backward()
    if accelerator is not None:
        optimizer.step()
    elif scaler is not None:
        scaler.step(optimizer)
        scaler.update()
""",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find loops with both."""
    for loop in context.reading.loops:
        backward = next((b for b in loop.backwards if context.roles.of(b.receiver) == "accelerator"), None)
        steps = [s for s in loop.steps if context.roles.of(s.receiver) == "scaler"]
        if backward is None or not any(same_guards(backward, step) for step in steps):
            continue
        yield context.finding(
            RULE,
            backward,
            "accelerator.backward() scales the loss itself, and this loop steps through a GradScaler of its own as well",
            evidence=[Evidence("scalers in the loop", 2)],
            fix=Fix(
                title="drop the own GradScaler",
                instruction="call optimizer.step() on the prepared optimizer; accelerate scales and unscales",
                expected="gradients are scaled and unscaled once",
            ),
            related=[(steps[0], "the own scaler steps here")],
        )
