"""Training in double precision.

## What it does
Looks for a network that is turned to fp64, or for fp64 as the default type of floating-point tensors.

## Why
Consumer and inference GPUs compute fp64 at 1/32 or 1/64 of their fp32 rate (an L4 or RTX 4090 at 1/64), data-centre GPUs at 1/2; all numbers take twice the memory of fp32.

## Fix
Train in fp32 or mixed precision; keep single sums in fp64 where they need it.

## When to ignore
When the problem needs 53 bits of mantissa, as some physical simulations do.

## References
- NVIDIA, CUDA C++ Programming Guide, throughput of native arithmetic instructions
"""

from __future__ import annotations

from collections.abc import Iterator

from preflight.check.context import Context, Evidence, Fix
from preflight.check.rule import Example, Rule
from preflight.source.evaluate.library.methods import is_module
from preflight.source.trace import Event
from preflight.source.values import Known, Value, settle
from preflight.vocabulary.finding import Finding

RULE = Rule(
    name="double-precision",
    code="EFF014",
    severity="info",
    confidence="likely",
    needs=("training_loop",),
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
    "import torch\nmodel = torch.nn.Linear(10, 2).double().cuda()\n" + _LOOP,
    Example(
        "import torch\nfrom torch import float64 as f8, set_default_dtype\nset_default_dtype(f8)\nmodel = torch.nn.Linear(10, 2)\n"
        + _LOOP,
        gpu="l4",
    ),
    "import torch\ndef prepare(net, dtype):\n    return net.to(dtype=dtype)\nmodel = prepare(torch.nn.Linear(10, 2), torch.double)\n"
    + _LOOP,
)
GOOD = (
    "import torch\nmodel = torch.nn.Linear(10, 2).float()\n" + _LOOP + "    total = model(x).double().sum()\n",
    "import torch\nimport argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--double', action='store_true')\n"
    "args = parser.parse_args()\nmodel = torch.nn.Linear(10, 2)\nif args.double:\n    model = model.double()\n" + _LOOP,
)


def check(context: Context) -> Iterator[Finding]:
    """Find networks and defaults in fp64."""
    for event in context.trace.calls(
        ".double", ".to", ".type", "torch.set_default_dtype", "torch.set_default_tensor_type"
    ):
        if event.context.shadow or not _fp64(event):
            continue
        evidence = [Evidence("precision", "fp64")]
        told = "the network is trained in fp64: twice the memory of fp32, and a fraction of its speed"
        gpu = context.gpu
        if gpu is not None and gpu.peak_flops.get("fp64") and gpu.peak_flops.get("fp32"):
            ratio = gpu.peak_flops["fp32"] / gpu.peak_flops["fp64"]
            arithmetic = f"{gpu.peak_flops['fp32'] / 1e12:.1f} / {gpu.peak_flops['fp64'] / 1e12:.2f} TFLOP/s"
            evidence.append(Evidence("fp32 against fp64", round(ratio, 1), "times", "published", arithmetic))
            told += f" (1/{ratio:.0f} on {gpu.title})"
        yield context.finding(
            RULE,
            event,
            told,
            evidence=evidence,
            fix=Fix(
                title="train in fp32",
                instruction="leave the network in fp32, or use mixed precision",
                expected="half the memory, and the speed of fp32",
            ),
        )
        return


def _fp64(event: Event) -> bool:
    if event.name == ".double":
        return is_module(event.receiver)
    if event.name in (".to", ".type"):
        return is_module(event.receiver) and any(_is_double(v) for v in (*event.args, *event.kwargs.values()))
    return bool(event.args) and _is_double(event.args[0])


def _is_double(value: Value) -> bool:
    base = settle(value)
    if isinstance(base, Known):
        return base.value in ("torch.DoubleTensor", "torch.cuda.DoubleTensor")
    return getattr(base, "name", None) in (
        "torch.float64",
        "torch.double",
        "torch.DoubleTensor",
        "torch.cuda.DoubleTensor",
    )
