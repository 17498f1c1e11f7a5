"""float16 is used on a GPU that has bfloat16.

## What it does
Reports mixed precision in float16 when the named GPU computes in bfloat16 as fast.

## Why
bfloat16 has the range of float32, up to 3.4e38; float16 ends at 65,504 and needs a scaler, which skips steps when gradients overflow.
Since Ampere (compute capability 8.0) both have the same speed.

## Fix
Use bfloat16, and no scaler.

## When to ignore
When the run continues one in float16, when the three more bits of float16 are wanted, or when the model is served in float16.

## References
- NVIDIA A100 data sheet: the same rate for FP16 and BF16
- Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training" (2019)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix, edits
from preflight.check.queries.precision import AUTOCASTS, Region
from preflight.check.queries.trainer_settings import argument_objects, explicit
from preflight.check.rule import Example, Rule
from preflight.source.trace import Event
from preflight.source.values import Obj
from preflight.vocabulary.finding import Edit, Finding

RULE = Rule(
    name="fp16-where-bf16-is-available",
    code="NUM014",
    severity="info",
    confidence="certain",
    needs=("gpu",),
    layer="C",
    tags=("numerics", "precision"),
)

BAD = (
    Example(
        """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        gpu="A100",
    ),
    Example(
        """
from accelerate import Accelerator as A
def start():
    return A(mixed_precision="fp16", gradient_accumulation_steps=2)
accelerator = start()
""",
        gpu="H100",
    ),
    Example(
        """
import argparse
from transformers import TrainingArguments
p = argparse.ArgumentParser()
p.add_argument("--half", type=bool, default=True)
args = p.parse_args()
arguments = TrainingArguments("out", fp16=args.half)
""",
        gpu="A100",
    ),
    Example(
        """
import lightning as L
trainer = L.Trainer(precision="16-mixed", max_epochs=3)
""",
        gpu="L40S",
    ),
)

GOOD = (
    Example(BAD[0].code, gpu="V100"),
    Example(BAD[0].code.replace("float16", "bfloat16"), gpu="A100"),
    Example(BAD[0].code),
    Example(
        """
import torch
from torch import nn
model = nn.Linear(10, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=dtype):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
    model(x)
""",
        gpu="A100",
    ),
)


def check(context: Context) -> Iterator[Finding]:
    """Find the first place that asks for float16."""
    gpu = context.gpu
    if gpu is None or not _has_both(context):
        return
    for place, written, edit in _wishes(context):
        yield context.finding(
            RULE,
            place,
            f"float16 is used on a {gpu.title}, which computes in bfloat16 as fast and then needs no scaler",
            evidence=[
                Evidence("asked for", written),
                Evidence("largest number of float16", 65504.0, source="published"),
                Evidence("bfloat16 rate", gpu.peak_flops.get("bf16"), "FLOP/s", "published"),
                Evidence("float16 rate", gpu.peak_flops.get("fp16"), "FLOP/s", "published"),
            ],
            fix=Fix(
                title="use bfloat16",
                safe=False,
                edits=edits(edit) if edit is not None else (),
                instruction="replace float16 by bfloat16, and leave the gradient scaler out",
                expected="no step is skipped for an overflow",
            ),
        )
        return


def _has_both(context: Context) -> bool:
    gpu = context.gpu
    rates = gpu.peak_flops if gpu is not None else {}
    capability = gpu.compute_capability if gpu is not None else None
    modern = capability is None or tuple(capability) >= (8, 0)
    return modern and bool(rates.get("bf16")) and rates.get("bf16", 0) >= rates.get("fp16", 0)


def _wishes(context: Context) -> Iterator[tuple[Event | Obj, str, Edit | None]]:
    """Places of the defaults' path that ask for float16 in training."""
    backwards = [b for loop in context.reading.loops for b in loop.backwards]
    for event in context.trace.calls(*AUTOCASTS):
        region = Region(event.result) if isinstance(event.result, Obj) else None
        if region is None or region.device != "cuda" or region.dtype != "float16" or region.enabled is not True:
            continue
        near = any(_shared_loop(event, b) for b in backwards)
        if near and not event.context.shadow:
            yield event, "autocast in float16", None
    for event in context.trace.calls("accelerate.Accelerator", "lightning.pytorch.Trainer", "lightning.fabric.Fabric"):
        name = "mixed_precision" if event.name.startswith("accelerate") else "precision"
        value = context.value(event.kwargs.get(name))
        if event.context.shadow or str(value) not in ("fp16", "16", "16-mixed", "16-true"):
            continue
        yield event, f"{name}={value!r}", _reworded(context, event, name, value)
    for arguments in argument_objects(context):
        if context.value(explicit(arguments, "fp16")) is True and arguments.kind == "call":
            yield arguments, "fp16=True", None


def _shared_loop(event: Event, backward: Event) -> bool:
    """Whether an autocast block and a backward belong to one training loop."""
    return any(event.context.within(frame) for frame in backward.context.loops())


def _reworded(context: Context, event: Event, name: str, value: object) -> Edit | None:
    """Replace the text where it is written out in the call."""
    node = event.node
    if not isinstance(node, ast.Call):
        return None
    given = next((k.value for k in node.keywords if k.arg == name), None)
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        return None
    new = "bf16-mixed" if given.value == "16" else given.value.replace("fp16", "bf16").replace("16-", "bf16-")
    return context.replace((event.script, given), f'"{new}"')
