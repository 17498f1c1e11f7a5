"""Which values of a script are modules, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.source.evaluate.library import methods
from preflight.source.layer_sizes import SIZES
from preflight.source.values import Known, Obj, Value, settle

if TYPE_CHECKING:
    from preflight.source.reading import Reading

_METRICS_WITH_NETWORKS = (
    "FrechetInceptionDistance",
    "KernelInceptionDistance",
    "InceptionScore",
    "MemorizationInformedFrechetInceptionDistance",
    "LearnedPerceptualImagePatchSimilarity",
    "PerceptualPathLength",
    "CLIPScore",
    "CLIPImageQualityAssessment",
    "BERTScore",
    "InfoLM",
)
"""Metrics of torchmetrics that bring a pretrained network along."""


def is_part(value: Obj) -> bool:
    """Whether a value is a module, a copy of one, or one that is wrapped to be normalised."""
    if value.kind == "copy" and isinstance(value.receiver, Obj):
        return is_part(value.receiver)
    return methods.is_module(value) or (
        value.kind == "call"
        and value.name.startswith("torch.nn.utils.")
        and bool(value.args)
        and value.name.endswith("_norm")
    )


def maybe_module(value: Obj) -> bool:
    """Whether an unknown library call may have made a module: a class of a package that is not of plain values."""
    first, _, rest = value.name.partition(".")
    last = rest.rpartition(".")[2]
    plain = (
        "torch",
        "math",
        "numpy",
        "builtins",
        "os",
        "collections",
        "functools",
        "itertools",
        "copy",
        "random",
        "logging",
        "argparse",
        "dataclasses",
        "",
    )
    return first not in plain and last[:1].isupper() and not last.startswith("DataCollator")


def held_by(obj: Obj) -> list[Obj]:
    """The objects among the attributes of one."""
    return [v for v in map(settle, obj.attrs.values()) if isinstance(v, Obj)]


def extends_layer(obj: Obj) -> bool:
    """Whether the class of a thing extends a layer that has a size of its own."""
    return obj.cls is not None and any(b in SIZES or b == "torch.nn.Sequential" for b in obj.cls.external_bases())


def counts_alone(value: Obj) -> bool:
    """Whether a thing is a metric of torchmetrics that holds counts and sums alone."""
    return value.name.startswith("torchmetrics.") and not value.name.endswith(_METRICS_WITH_NETWORKS)


def may_be_left_out(value: Value) -> bool:
    """Whether a module or a weight is made in a branch of which nobody knows whether it is taken."""
    if not isinstance(value, Obj) or value.context is None:
        return False
    return any(frame.kind == "if" and frame.taken is None for frame in value.context.frames())


def handed_to_base(reading: Reading, obj: Obj, base: str) -> Iterator[tuple[list[Value], dict[str, Value]]]:
    """What a class hands to the layer that it extends: ``super().__init__(...)``, or ``nn.Linear.__init__(self, ...)``."""
    for event in reading.trace.on(obj, "super.__init__"):
        yield event.args, event.kwargs
    for event in reading.trace.calls(base + ".__init__"):
        if event.args and settle(event.args[0]) is obj:
            yield event.args[1:], event.kwargs


def added_modules(reading: Reading) -> dict[int, list[tuple[str, Value]]]:
    """Modules and parameters that a script registers by a call, by the id of their owner."""
    found: dict[int, list[tuple[str, Value]]] = {}
    for event in reading.trace.calls(".add_module", ".register_module", ".register_parameter"):
        owner = settle(event.receiver) if event.receiver is not None else None
        name, module = event.argument(0, "name"), event.argument(1, "module") or event.argument(1, "param")
        if isinstance(owner, Obj) and module is not None:
            label = settle(name) if name is not None else None
            key = str(label.value) if isinstance(label, Known) else f"{len(found)}"
            rows = found.setdefault(id(owner), [])
            if not any(known is module for _, known in rows):
                rows.append((key, module))
    return found
