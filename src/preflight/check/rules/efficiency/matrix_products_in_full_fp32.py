"""Matrix products run in full fp32 on a GPU with tensor cores.

## What it does
Looks for training in fp32, without autocast, bf16 weights or TF32, of a network with linear layers or attention.

## Why
PyTorch computes fp32 matrix products without tensor cores unless it is told otherwise.
An A100 then does 19.5 TFLOP/s instead of 156 in TF32 and 312 in bf16; an H100 SXM 67 instead of 495 and 989.
Convolutions use TF32 by default and are not meant here.

## Fix
`torch.set_float32_matmul_precision("high")` for TF32, or autocast to bf16.

## When to ignore
When the results need the 24 bits of fp32, as in some physical simulations.

## References
- PyTorch documentation, "CUDA semantics": TensorFloat-32 on Ampere and later devices
- NVIDIA, A100 and H100 data sheets
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from preflight.check.context import Context, Edit, Evidence, Fix, edits
from preflight.check.queries.steps import step_loops, uses_gpu
from preflight.check.rule import Example, Rule
from preflight.source.trace import Event
from preflight.source.values import Known, Obj, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="matrix-products-in-full-fp32",
    code="EFF009",
    severity="info",
    confidence="likely",
    needs=("training_loop", "complete"),
    layer="C",
    tags=("precision",),
)

_LOOP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
BAD = (
    """
import torch
model = torch.nn.Transformer(512, 8).cuda()
"""
    + _LOOP,
    Example(
        """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=1024)
args = parser.parse_args()
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    def forward(self, x):
        return self.layers(x)
model = Net(args.width).to("cuda")
"""
        + _LOOP,
        gpu="h100",
    ),
    """
import torch
from transformers import AutoModelForCausalLM as Auto
torch.set_float32_matmul_precision("highest")
def build():
    return Auto.from_pretrained("gpt2")
model = build().to(torch.device("cuda"))
"""
    + _LOOP,
    """
import torch, torchvision
def build():
    return torchvision.models.vit_b_16(num_classes=10)
model = build().cuda()
"""
    + _LOOP,
)
GOOD = (
    """
import torch, torchvision
model = torchvision.models.resnet50().cuda()
"""
    + _LOOP,
    """
import torch
torch.backends.cuda.matmul.allow_tf32 = True
model = torch.nn.Transformer(512, 8).cuda()
"""
    + _LOOP,
    """
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.Linear(64, 10)).cuda()
"""
    + _LOOP,
    """
import torch
model = torch.nn.Transformer(512, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    """
import torch
from transformers import ResNetConfig, ResNetForImageClassification
model = ResNetForImageClassification(ResNetConfig()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    optimizer.zero_grad()
    model(x).logits.mean().backward()
    optimizer.step()
""",
)

_LARGE = r"^(torch\.nn\.(Transformer\w*|MultiheadAttention|LSTM|GRU)|transformers\.\w+(\.\w+)?|x_transformers\.\w+)$"
_MIXED = (
    "torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast", "apex.amp.initialize", "accelerate.Accelerator",
    "deepspeed.initialize", "lightning.pytorch.Trainer", "lightning.fabric.Fabric", "torch.distributed.fsdp.MixedPrecision",
    "torch.distributed.fsdp.MixedPrecisionPolicy", ".half", ".bfloat16", "torch.set_default_dtype", "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainingArguments", "torch.set_default_tensor_type", "transformer_engine.pytorch.fp8_autocast",
)  # fmt: skip
_TRANSFORMERS = r"^(vit|swin|deit|beit|eva)(_|\d|v2)"
_WIDE = 512


def check(context: Context) -> Iterator[Finding]:
    """Find fp32 training of networks whose work is matrix products."""
    trace = context.trace
    if not uses_gpu(context) or trace.calls(*_MIXED) or not step_loops(context):
        return
    for event in trace.calls("torch.set_float32_matmul_precision"):
        if context.value(event.argument(0, "precision")) != "highest":
            return
    if any(s.name in ("allow_tf32", "fp32_precision") for s in trace.stores) or _reduced(context):
        return
    made = _layer(context)
    if made is None or (context.gpu is not None and "tf32" not in context.gpu.peak_flops):
        return
    gpu = context.gpu
    place = step_loops(context)[0].backwards[0]
    evidence = [
        Evidence("autocast", False),
        Evidence("float32 matmul precision", "highest", None, "derived", "PyTorch's default"),
    ]
    told = "matrix products run in full fp32, without tensor cores"
    if gpu is not None:
        ratio = gpu.peak_flops["tf32"] / gpu.peak_flops["fp32"]
        arithmetic = f"{gpu.peak_flops['tf32'] / 1e12:.1f} / {gpu.peak_flops['fp32'] / 1e12:.1f} TFLOP/s"
        evidence.append(Evidence("TF32 against fp32", round(ratio, 1), "times", "published", arithmetic))
        told += f": at most 1/{ratio:.1f} of the rate that TF32 has on {gpu.title}"
    edit = _edit(context, made)
    yield context.finding(
        RULE,
        place,
        told,
        evidence=evidence,
        related=[(made, "a layer of matrix products")],
        fix=Fix(
            title='call torch.set_float32_matmul_precision("high")',
            edits=edits(edit) if edit is not None else (),
            instruction='call torch.set_float32_matmul_precision("high") at the start, or train under autocast in bf16',
            expected="matrix products use tensor cores, with 10 bits of mantissa in the inputs (TF32)",
        ),
        severity="warning" if gpu is not None else None,
    )


def _reduced(context: Context) -> bool:
    """Whether some tensor or network is moved or made in half precision."""
    for event in context.trace.events:
        for value in (*event.args[:3], *(event.kwargs[k] for k in ("dtype", "torch_dtype") if k in event.kwargs)):
            name = getattr(settle(value), "name", None)
            if name in ("torch.bfloat16", "torch.float16", "torch.half", "torch.float64", "torch.double"):
                return True
    return False


def _layer(context: Context) -> Obj | None:
    """A layer whose work is matrix products, in a network without convolutions over pictures."""
    for event in context.trace.calls_under("torchvision.models.", "timm."):
        if isinstance(event.result, Obj) and not event.context.shadow and context.roles.of(event.result) == "model":
            return event.result if _is_vision_transformer(context, event) else None
    convolves = context.model is not None and context.model.family == "cnn"  # PyTorch takes TF32 for these by itself
    if convolves or context.trace.calls("torch.nn.Conv2d", "torch.nn.Conv3d"):
        return None
    for event in context.trace.events:
        made = event.result
        if not isinstance(made, Obj) or event.context.shadow:
            continue
        if re.match(_LARGE, event.name) and context.roles.of(made) == "model":
            return made
        if event.name == "torch.nn.Linear" and len(event.args) >= 2:
            sizes = [settle(a) for a in event.args[:2]]
            if all(isinstance(s, Known) and isinstance(s.value, int) and s.value >= _WIDE for s in sizes):
                return made
    return None


def _is_vision_transformer(context: Context, event: Event) -> bool:
    """Whether a library's vision model works with matrix products rather than convolutions."""
    name = event.name.rpartition(".")[2]
    if name == "create_model":
        name = str(context.value(event.argument(0, "model_name"), ""))
    return re.match(_TRANSFORMERS, name.rpartition("/")[2]) is not None


def _edit(context: Context, made: Obj) -> Edit | None:
    script = context.reading.script
    if made.context is None or any(f.kind == "call" for f in made.context.frames()) or made.site is None:
        return None
    if not any(
        isinstance(n, ast.Import) and any(a.name == "torch" and a.asname is None for a in n.names)
        for n in script.tree.body
    ):
        return None
    if context.trace.calls("torch.set_float32_matmul_precision"):
        return None
    return context.insert_before(made, 'torch.set_float32_matmul_precision("high")')
