"""The exception that ended a dry run, as rules speak of it: what refused, and what it was given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from preflight.check.observed.run import Run, seen
from preflight.vocabulary.finding import Confidence, Evidence

Tensor = Mapping[str, Any]

_OF_DATA = frozenset("nonzero masked_select _unique2 index".split())
_TORCH = ("RuntimeError", "ValueError", "IndexError", "TypeError", "AssertionError")


class Refused:
    """The exception of a run, with the tensors that were at hand.

    Attributes:
        line: ``file:line`` of the script's innermost frame.
        operator: The operator, or an empty text. module: Path of the module, or an empty text. kind: Its class.
        inputs: Tensors given to the module. given: Those given to the operator. own: The module's parameters and buffers.
        named: Tensors that the statement names.
        text: The first line of the message.
    """

    def __init__(self, run: Run, data: Mapping[str, Any], line: str) -> None:
        """Keep what is known."""
        self._run, self.line = run, line
        self.operator, self.module = str(data.get("operator", "")), str(data.get("module_path", ""))
        self.kind, self.settings = str(data.get("kind", "")), str(data.get("settings", ""))
        self.inputs: list[Tensor] = list(data.get("inputs", ()))
        self.given: list[Tensor] = list(data.get("given", ()))
        self.own: list[Tensor] = list(data.get("own", ()))
        self.named: list[Tensor] = list(data.get("tensors", ()))
        self.text = next(iter((run.profile.message or "").strip().splitlines()), "")

    @classmethod
    def of(cls, run: Run) -> Refused | None:
        """Return what PyTorch refused; None where the run did not fail, or the script itself raised."""
        found = run.seen("raised")
        if run.profile.outcome != "failed" or not found or not run.profile.frames:
            return None
        if run.profile.error not in _TORCH or run.raises(found[-1].line):
            return None
        return cls(run, found[-1].data, found[-1].line)

    def says(self, pattern: str) -> bool:
        """Whether the message has a pattern, in any case."""
        return re.search(pattern, self.text, re.IGNORECASE) is not None

    @cached_property
    def confidence(self) -> Confidence:
        """How sure it is that the real run ends so too: not where data stood in, or a size hung on numbers."""
        tensors = [*self.given, *self.inputs, *self.named]
        return (
            "possible" if self._run.profile.assumptions or any(t["made_by"] in _OF_DATA for t in tensors) else "likely"
        )

    @property
    def is_loss(self) -> bool:
        """Whether a loss refused."""
        return self.kind.endswith("Loss") or re.search("loss|cross_entropy", self.operator) is not None

    @property
    def where(self) -> str:
        """The module in words: ``fc (Linear: in_features=8, out_features=4)``; or the operator."""
        if self.module:
            return f"{self.module} ({self.kind}{': ' + self.settings if self.settings else ''})"
        return self.operator or "this statement"

    def evidence(self) -> list[Evidence]:
        """The message and the tensors, as evidence."""
        found = [seen("exception", f"{self._run.profile.error}: {self.text[:200]}")]
        if self.module:
            found.append(seen("module", self.where))
        if self.operator:
            found.append(seen("operator", self.operator.strip("_")))
        told: set[str] = set()
        for tensor in [*self.named, *self.inputs, *self.own, *self.given][:12]:
            words = described(tensor)
            if words not in told and (tensor["name"] or not told):
                told.add(words)
                found.append(seen(tensor["name"] or "operand", words))
        found.append(seen("optimizer steps before", self._run.profile.steps))
        return found

    def sources(self) -> list[tuple[str, str]]:
        """Where the tensors were made: lines, and what made them."""
        found: dict[str, str] = {}
        for tensor in [*self.inputs, *self.named, *self.given]:
            if tensor["made_at"] and tensor["made_at"] != self.line:
                name = f"{tensor['name']} " if tensor["name"] else "a tensor "
                words = f"{name}of shape {shape(tensor)} is made here by {tensor['made_by'].strip('_')}"
                found.setdefault(tensor["made_at"], words)
        return list(found.items())[:3]


def shape(tensor: Tensor) -> str:
    """The shape as Python writes it."""
    return str(tuple(tensor["shape"]))


def described(tensor: Tensor) -> str:
    """Shape, type and device in one text."""
    return f"{shape(tensor)} {tensor['dtype']} on {tensor['device']}"
