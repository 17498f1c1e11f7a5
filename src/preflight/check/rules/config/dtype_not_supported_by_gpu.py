"""Precision that the GPU does not have.

## What it does
Compares the precision that the script asks for with the compute capability of the GPU that was named: bfloat16 below 8.0, FP8 below 8.9, FlashAttention 2 below 8.0.

## Why
A V100 (7.0) or T4 (7.5) has no bfloat16 matrix units: older versions of PyTorch refuse `TrainingArguments(bf16=True)` there, and newer ones emulate bfloat16 at a fraction of the speed of float16.
FP8 matrix units came with 8.9 (Ada) and 9.0 (Hopper); FlashAttention 2 refuses to run below 8.0.

## Fix
Use float16 with a gradient scaler, or another GPU.

## When to ignore
When the script chooses the precision at run time.

## References
- NVIDIA CUDA C++ Programming Guide, "Compute Capabilities"
- FlashAttention README, "Requirements"
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.facts.settings import trainer_setting
from preflight.source.trace import Event
from preflight.source.values import Ext, Known, Value, settle
from preflight.vocabulary.finding import Finding, Severity

RULE = Rule(
    name="dtype-not-supported-by-gpu",
    code="CFG005",
    severity="error",
    confidence="likely",
    needs=("gpu",),
    layer="C",
    tags=("precision", "configuration"),
)

BAD = (
    Example(
        """
import torch
with torch.autocast("cuda", dtype=torch.bfloat16):
    y = model(x)
""",
        gpu="V100",
    ),
    Example(
        """
import transformers
def arguments():
    return transformers.TrainingArguments("out", bf16=True)
args = arguments()
trainer = transformers.Trainer(model, args)
""",
        gpu="T4",
    ),
    Example(
        """
import argparse
from transformers import AutoModelForCausalLM as Auto
p = argparse.ArgumentParser()
p.add_argument("--attention", default="flash_attention_2")
args = p.parse_args()
model = Auto.from_pretrained("gpt2", attn_implementation=args.attention)
""",
        gpu="V100",
    ),
    Example(
        """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp8")
""",
        gpu="A100",
    ),
)

GOOD = (
    Example(BAD[0].code, gpu="A100"),
    Example(BAD[3].code, gpu="H100"),
    Example(
        """
import torch
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
with torch.autocast("cuda", dtype=dtype):
    y = model(x)
other = torch.bfloat16
""",
        gpu="V100",
    ),
    Example(BAD[0].code),
)

_NEEDS = {"bf16": (8, 0), "fp8": (8, 9), "flash_attention_2": (8, 0)}
_TITLES = {"bf16": "bfloat16", "fp8": "FP8", "flash_attention_2": "FlashAttention 2"}


def check(context: Context) -> Iterator[Finding]:
    """Find what the named GPU lacks."""
    gpu = context.gpu
    if (
        gpu is None
        or gpu.compute_capability is None
        or context.trace.calls("torch.cuda.is_bf16_supported", "torch.cuda.get_device_capability")
    ):
        return
    seen: set[str] = set()
    for event, kind, severity in _wishes(context):
        needed = _NEEDS[kind]
        if kind in seen or event.context.shadow or tuple(gpu.compute_capability) >= needed:
            continue
        seen.add(kind)
        has = ".".join(map(str, gpu.compute_capability))
        effect = "it is emulated slowly"
        if severity == "error":
            effect = "older PyTorch refuses it, newer emulates it slowly" if kind == "bf16" else "this raises"
        yield context.finding(
            RULE,
            event,
            f"{_TITLES[kind]} needs compute capability {needed[0]}.{needed[1]}, and {gpu.title} has {has}: {effect}",
            severity=severity,
            evidence=[
                Evidence("compute capability", has, source="published"),
                Evidence("needed", f"{needed[0]}.{needed[1]}", source="published"),
            ],
            fix=Fix(
                title="use float16 with a gradient scaler"
                if kind == "bf16"
                else f"do without {_TITLES[kind]} on this GPU",
                instruction="choose the precision by the GPU, or name another GPU",
                expected="the run uses units that the GPU has",
            ),
        )


def _wishes(context: Context) -> Iterator[tuple[Event, str, Severity]]:
    for event in context.trace.calls("torch.autocast", "torch.cuda.amp.autocast"):
        dtype = event.argument(1, "dtype")
        if _is(dtype, "torch.bfloat16") and context.value(event.kwargs.get("enabled"), True) is not False:
            yield event, "bf16", "warning"
    for event in context.trace.calls("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"):
        if (
            context.value(event.kwargs.get("bf16")) is True
            or context.value(trainer_setting(context.reading, "bf16")) is True
        ):
            yield event, "bf16", "error"
    for event in context.trace.calls("accelerate.Accelerator", "lightning.pytorch.Trainer", "lightning.fabric.Fabric"):
        text = context.value(event.kwargs.get("mixed_precision") or event.kwargs.get("precision"))
        if isinstance(text, str) and text.startswith(("bf16", "fp8")):
            yield event, text[:4] if text.startswith("bf16") else "fp8", "error"
    for name in ("transformer_engine.pytorch.fp8_autocast", "torchao.float8.convert_to_float8_training"):
        for event in context.trace.calls(name):
            yield event, "fp8", "error"
    for name, events in context.trace.by_name.items():
        if name.endswith(("from_pretrained", "from_config")):
            for event in events:
                if context.value(event.kwargs.get("attn_implementation")) == "flash_attention_2":
                    yield event, "flash_attention_2", "error"


def _is(value: Value | None, name: str) -> bool:
    base = settle(value) if value is not None else Known(None)
    return isinstance(base, Ext) and base.name == name
