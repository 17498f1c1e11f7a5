"""What a script asks of the GPUs that it runs on: whether there are any, how many, and what they can do."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import AttributeHandler, Call, Model
from preflight.source.values import Known, Seq, Value

if TYPE_CHECKING:
    from preflight.source.evaluate.machine import Machine

CAPABILITY = "PREFLIGHT_GPU_CAPABILITY"
"""The variable of the environment of a reading that tells the compute capability: ``8.0``."""


def register(model: Model) -> None:
    """Enter the questions into the model of PyTorch."""
    model.call("torch.cuda.is_available", "torch.cuda.is_bf16_supported", "torch.accelerator.is_available")(_available)
    model.call("torch.backends.mps.is_available", "torch.xpu.is_available")(_not_available)
    model.call("torch.cuda.device_count")(_devices)
    model.call("torch.cuda.get_device_capability")(_capability)
    for place, name in enumerate(("major", "minor")):
        model.attribute(f"torch.cuda.get_device_properties.{name}")(_half_of_it(place))


def _available(m: Machine, c: Call) -> Value | None:
    """A run that is checked is meant for a GPU; the other side is followed too."""
    return Known(True, m.site(c.node), "a GPU is assumed", True)


def _not_available(m: Machine, c: Call) -> Value | None:
    return Known(False, m.site(c.node), "an NVIDIA or AMD GPU is assumed", True)


def _devices(m: Machine, c: Call) -> Value | None:
    count = m.environment.get("PREFLIGHT_GPUS_PER_NODE")
    if count is not None:
        return Known(int(count), m.site(c.node), "GPUs per node")
    return m.unknown("the number of GPUs is not given", c.node)


def _numbers(m: Machine, node: ast.AST) -> list[Value] | None:
    told = m.environment.get(CAPABILITY)
    if told is None:
        return None
    return [Known(int(part), m.site(node), "compute capability of the GPU") for part in told.split(".")]


def _capability(m: Machine, c: Call) -> Value | None:
    numbers = _numbers(m, c.node)
    return Seq(numbers, "tuple", m.site(c.node)) if numbers is not None else None


def _half_of_it(place: int) -> AttributeHandler:
    def half(m: Machine, base: Value, name: str, node: ast.AST, key: Value | None) -> Value | None:
        numbers = _numbers(m, node)
        return numbers[place] if numbers is not None else None

    return half
